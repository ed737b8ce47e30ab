import { parse, TomlError } from 'smol-toml';
import type { Table } from './fields';
import type { Outcome } from './outcome';

const DEEPEST = 64;

/** The tables of a TOML document. */
export function readToml(text: string): Outcome<Table> {
  try {
    return { value: parse(text, { integersAsBigInt: 'asNeeded', maxDepth: DEEPEST }) };
  } catch (error) {
    if (!(error instanceof TomlError)) return { problem: 'is no TOML that can be read' };
    const [message = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n');
    return { problem: `is no TOML: ${message} (line ${error.line}, column ${error.column})` };
  }
}

// A number that stands alone after `version =`, which a value would round: 1.10.
const BARE_VERSION = /^[ \t]*version[ \t]*=[ \t]*([+-]?[\d][\w.+-]*)[ \t]*(?:#.*)?$/gm;

/** The versions of a file, each that stands there as a number as the text that it was written as. */
export function versionsAsWritten(versions: readonly unknown[], text: string): readonly unknown[] {
  const written = [...text.matchAll(BARE_VERSION)].map(([, version]) => version);
  // Another table has a version too: which is which cannot be said.
  if (written.length !== versions.filter(isNumber).length) return versions;
  return versions.map((version) => (isNumber(version) ? written.shift() : version));
}

function isNumber(version: unknown): boolean {
  return typeof version === 'number' || typeof version === 'bigint';
}
