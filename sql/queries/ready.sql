-- The fingerprint of the schema that is applied.
select fingerprint from tidegate.schema_state;
