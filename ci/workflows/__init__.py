"""GitHub's workflows: written from the catalogue, chosen for a change, and audited."""
