"""Convolutions of 3x3 by Winograd's minimal filtering: transforms, operators with loop nests, values of weights."""
