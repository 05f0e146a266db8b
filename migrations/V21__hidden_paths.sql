-- The members of payloads and responses that the pages for operators hide.

alter table tidegate.kind
  add column hidden_paths text[],
  add constraint kind_hidden_paths_are_1_to_16_lists_of_members_joined_by_dots check (
    cardinality(hidden_paths) = 0
    or (array_to_string(hidden_paths, '', '') !~ '\n'
        and array_to_string(hidden_paths, chr(10), '') ~ '^[^.,\n]+(\.[^.,\n]+)*(\n[^.,\n]+(\.[^.,\n]+)*){0,15}$')
  );
