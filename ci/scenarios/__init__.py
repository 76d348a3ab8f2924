"""The catalogue of scenarios: declared, validated, resolved."""
