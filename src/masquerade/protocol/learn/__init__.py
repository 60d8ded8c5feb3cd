"""Computing a model together: shares in, shares out, and nothing opened but what the model is made of."""
