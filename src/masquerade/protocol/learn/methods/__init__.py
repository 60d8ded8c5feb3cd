"""The methods by which parties learn a model together, one file each; `masquerade.methods` lists them."""
