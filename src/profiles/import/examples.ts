import JSON5 from 'json5';
import { getJsonDepth, type JsonValue } from '../../kernel/jsonValue';
import type { Outcome } from '../../kernel/outcome';

const MAX_DEPTH = 64;

/** Parses an example file of chirpstack-device-profiles: JSON or JSON5, an array. */
export function readExamples(text: string): Outcome<readonly unknown[]> {
  try {
    return parseExampleItems(JSON.parse(text));
  } catch {
    // Not JSON: JSON5 allows comments, hexadecimal numbers, single quotes and trailing commas.
  }
  try {
    return parseExampleItems(JSON5.parse(text));
  } catch (error) {
    return {
      problem: `is neither JSON nor JSON5: ${error instanceof Error ? error.message.replace(/^JSON5: /, '') : String(error)}`,
    };
  }
}

/** Validates examples and converts them to JSON values. */
export function parseExampleItems(value: unknown): Outcome<readonly unknown[]> {
  if (!Array.isArray(value)) return { problem: 'does not contain a list of examples' };
  if (getJsonDepth(value as JsonValue, MAX_DEPTH) > MAX_DEPTH)
    return { problem: `is nested deeper than ${MAX_DEPTH} levels` };
  return { value: JSON.parse(JSON.stringify(value)) as unknown[] };
}
