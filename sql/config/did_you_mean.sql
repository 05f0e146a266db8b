-- did_you_mean: A question for the hint of an error, which names the known word that is nearest to an unknown one;
-- empty when none is near.
--
-- Near is one change in three letters, three at most. Only errors call it: its work grows with the number of words.
create or replace function tidegate_internal.did_you_mean(p_word text, p_words text[])
  returns text language plpgsql immutable as $$
declare
  v_word    constant text := replace(lower(left(coalesce(p_word, ''), 100)), '-', '_');
  v_least   integer := least(3, (length(v_word) + 1) / 3) + 1;
  v_other   text;
  v_nearest text;
  v_changes integer;
begin
  foreach v_other in array p_words loop
    v_changes := tidegate_internal.edit_distance(v_word, v_other, v_least - 1);
    if v_changes < v_least then
      v_least := v_changes;
      v_nearest := v_other;
    end if;
    exit when v_least = 0;
  end loop;
  return coalesce('did you mean ' || v_nearest || '? ', '');
end;
$$;
