"""Mirror maps, constraint sets, and the steps between them."""
