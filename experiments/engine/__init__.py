"""How points are computed: in worker processes, resumable, within limits; and the searches over a grid."""
