import { parse, TomlError } from 'smol-toml';
import { getJsonDepth, type JsonValue } from '../../kernel/jsonValue';
import type { Table } from './fields';
import type { Outcome } from '../../kernel/outcome';

const MAX_DEPTH = 64;

/** Parses a TOML document. */
export function readToml(text: string): Outcome<Table> {
  try {
    const value = parse(text, { integersAsBigInt: 'asNeeded', maxDepth: MAX_DEPTH });
    // The parser only counts brackets; a dotted key such as a.b.c nests without them.
    return getJsonDepth(value as unknown as JsonValue, MAX_DEPTH) > MAX_DEPTH
      ? { problem: `is nested deeper than ${MAX_DEPTH} levels` }
      : { value };
  } catch (error) {
    if (!(error instanceof TomlError)) return { problem: 'is not valid TOML' };
    const [message = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n');
    return { problem: `is not valid TOML: ${message} (line ${error.line}, column ${error.column})` };
  }
}

// A bare number after `version =`. Parsing it as a number would turn 1.10 into 1.1.
const BARE_VERSION = /^[ \t]*version[ \t]*=[ \t]*([+-]?[\d][\w.+-]*)[ \t]*(?:#.*)?$/gm;

/** Replaces versions that are numbers by their text in the file. Both are in the order of the file. */
export function restoreVersionTexts(versions: readonly unknown[], fileText: string): readonly unknown[] {
  const numberTexts = [...fileText.matchAll(BARE_VERSION)].map(([, version]) => version);
  // Another table of the file also has a version, so it is unknown which text belongs to which version.
  if (numberTexts.length !== versions.filter(isNumber).length) return versions;
  return versions.map((version) => (isNumber(version) ? numberTexts.shift() : version));
}

function isNumber(version: unknown): boolean {
  return typeof version === 'number' || typeof version === 'bigint';
}
