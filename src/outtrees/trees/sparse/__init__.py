"""Out-trees over a sparse list of possible edges: components, fill-reducing order, fronts."""
