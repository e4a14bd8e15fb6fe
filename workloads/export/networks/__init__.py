"""Networks of the papers that no installable package offers, written down in torch."""
