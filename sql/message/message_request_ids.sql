-- message_request_ids: The requests that messages stand for, by the ids in them; null for a message that Tidegate did
-- not write.
--
-- One cast of all costs less than `message_request_id` for each, and fails only for a text that is no id. It also reads
-- ids in other notations, which no function writes.
create or replace function tidegate_internal.message_request_ids(p_texts text[])
  returns uuid[] language plpgsql stable as $$
begin
  return p_texts::uuid[];
exception when invalid_text_representation then
  return array(
    select tidegate.message_request_id(jsonb_build_object('id', t.text))
    from unnest(p_texts) with ordinality as t(text, place)
    order by t.place
  );
end;
$$;
