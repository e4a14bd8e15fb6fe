"""Parts that the specs of several kinds of machines share."""
