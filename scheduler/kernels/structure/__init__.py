"""What lies in a layer, whatever machine runs it: its anchor, its parts of one anchor each, its passes."""
