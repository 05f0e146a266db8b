// JSON whose numbers keep their values: those that no `number` holds are a bigint, or a LosslessNumber with their text.

import { isInteger, isSafeNumber, LosslessNumber, parse as parseLossless, stringify as toText } from "lossless-json";

export { LosslessNumber };

export type Json =
  | string
  | number
  | bigint
  | LosslessNumber
  | boolean
  | null
  | Json[]
  | { [name: string]: Json };

/** Reads JSON, such as a payload, or the body of a downstream's answer. Throws a SyntaxError. */
export const parse = (text: string): Json => parseLossless(text, undefined, parseNumber) as Json;

/** Writes JSON. */
export function stringify(value: Json): string {
  const text = toText(value);
  if (text === undefined) throw new TypeError("it is no JSON");
  return text;
}

function parseNumber(text: string): number | bigint | LosslessNumber {
  if (isSafeNumber(text)) return Number(text);
  return isInteger(text) ? BigInt(text) : new LosslessNumber(text);
}
