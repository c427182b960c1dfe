"""Configuration: schema, composition, overrides, help, registry."""
