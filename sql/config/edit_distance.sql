-- edit_distance: How many letters to insert, leave out, exchange or swap with their neighbours make one word the other;
-- some number above `p_most` when it is more than that.
create or replace function tidegate_internal.edit_distance(p_word text, p_other text, p_most integer)
  returns integer language plpgsql immutable as $$
declare
  v_far    constant integer := 1000;
  v_letter text;
  v_older  integer[];
  v_before integer[];
  -- By how many letters of the other word are compared, and one more: the distance so far.
  v_row    integer[] := array(select generate_series(0, length(p_other)));
begin
  if abs(length(p_word) - length(p_other)) > p_most then
    return v_far;
  end if;
  for i in 1 .. length(p_word) loop
    v_letter := substr(p_word, i, 1);
    v_older := v_before;
    v_before := v_row;
    v_row := array_fill(v_far, array[length(p_other) + 1]);
    v_row[1] := i;
    for j in greatest(1, i - p_most) .. least(length(p_other), i + p_most) loop
      v_row[j + 1] := least(
        v_row[j] + 1, v_before[j + 1] + 1, v_before[j] + (v_letter <> substr(p_other, j, 1))::integer,
        case
          when i > 1 and j > 1 and v_letter || substr(p_word, i - 1, 1) = substr(p_other, j - 1, 2)
            then v_older[j - 1] + 1
        end
      );
    end loop;
  end loop;
  return v_row[length(p_other) + 1];
end;
$$;
