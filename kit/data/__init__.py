"""The data pipeline: line indexes, token stores, batch rows, samplers as pure functions of the step, data loaders."""
