import JSON5 from 'json5';
import { jsonDepth, type JsonValue } from '../../kernel/jsonValue';
import type { Outcome } from './outcome';

const DEEPEST = 64;

/** The examples of a file of the TOML layout: JSON, or what JavaScript would take for a list. */
export function readExamples(text: string): Outcome<readonly unknown[]> {
  try {
    return exampleItems(JSON.parse(text));
  } catch {
    // Comments, hexadecimal numbers, single quotes, commas at the end.
  }
  try {
    return exampleItems(JSON5.parse(text));
  } catch (error) {
    return { problem: `is neither JSON nor JSON5: ${error instanceof Error ? error.message.replace(/^JSON5: /, '') : String(error)}` };
  }
}

/** Examples as JSON holds them. */
export function exampleItems(value: unknown): Outcome<readonly unknown[]> {
  if (!Array.isArray(value)) return { problem: 'holds no list of examples' };
  if (jsonDepth(value as JsonValue, DEEPEST) > DEEPEST) return { problem: `is nested deeper than ${DEEPEST} levels` };
  return { value: JSON.parse(JSON.stringify(value)) as unknown[] };
}
