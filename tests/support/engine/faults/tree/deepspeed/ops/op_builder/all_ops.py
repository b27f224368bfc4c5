"""Stand-in for the list of DeepSpeed's operators."""


class Builder:
    def load(self):
        """The real one imports its extension."""


ALL_OPS = {name: Builder() for name in ("cpu_adam", "fused_adam", "transformer_inference")}
