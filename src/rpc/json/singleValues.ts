import type { DescEnum, DescField, DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { enumWord, enumWords } from './enumWords';
import { isObject, kindOf, quoted, report } from './faults';
import { scalarOf, type Scalar, type TakenRange } from './scalars';
import { DURATION_FORM, durationOf, TIME_FORM, timestampOf } from './times';

/** Reads one value that is no message with fields. Both give undefined when it is wrong, which they say. */
export interface SingleValue {
  readonly fromJson: (json: unknown, path: string, out: Violation[]) => unknown;
  /** From a query or a path; undefined where a text cannot give it. */
  readonly fromText: ((text: string, path: string, out: Violation[]) => unknown) | undefined;
  /** Whether null is a value of it. */
  readonly takesNull: boolean;
  /** A value that stands in a list for one that is wrong. */
  readonly standIn: () => unknown;
}

/** How the values of a field (the items of its list or map) are read; undefined for messages with fields. Throws for a type of google.protobuf that it does not know. */
export function singleValue(field: DescField, taken: TakenRange | undefined): SingleValue | undefined {
  if (field.message) return wellKnown(field.message);
  if (field.enum) return ofText(wordsOf(field.enum));
  return field.scalar === undefined ? undefined : ofScalar(scalarOf(field.scalar, taken), kindOf);
}

function wellKnown({ typeName }: DescMessage): SingleValue | undefined {
  switch (typeName) {
    case 'google.protobuf.Timestamp':
      return ofText({ parse: timestampOf, form: TIME_FORM, hint: PLUS_HINT, zero: () => ({ seconds: 0, nanos: 0 }) });
    case 'google.protobuf.Duration':
      return ofText({ parse: durationOf, form: DURATION_FORM, zero: () => ({ seconds: 0, nanos: 0 }) });
    case 'google.protobuf.Struct':
      return freeJson(isObject, 'a JSON object', () => ({}));
    case 'google.protobuf.ListValue':
      return freeJson(Array.isArray, 'a list', () => []);
    case 'google.protobuf.Value':
      return { fromJson: (json) => json, fromText: undefined, takesNull: true, standIn: () => null };
    default:
      if (typeName.startsWith('google.protobuf.') && typeName !== 'google.protobuf.Empty') throw new Error(`JSON does not know ${typeName} yet; add it to src/rpc/json/singleValues.ts`);
      return undefined;
  }
}

function ofScalar({ fromJson, fromText, form, zero }: Scalar, shown: (json: unknown) => string, hint = ''): SingleValue {
  return {
    fromJson: (json, path, out) => {
      const value = fromJson(json);
      if (value === undefined) report(out, path, () => `must be ${form}, not ${shown(json)}`);
      return value;
    },
    fromText: (text, path, out) => {
      const value = fromText(text);
      if (value === undefined) report(out, path, () => `must be ${form}${hint}, not ${quoted(text)}`);
      return value;
    },
    takesNull: false,
    standIn: zero,
  };
}

// A plus as it is means a space there, and gets lost so.
const PLUS_HINT = ' (in a query + is written %2B)';

/** What a text stands for in JSON too. */
interface TextForm {
  readonly parse: (text: string) => unknown;
  readonly form: string;
  /** What a query needs to be told more. */
  readonly hint?: string;
  readonly zero: () => unknown;
}

function ofText({ parse, form, hint, zero }: TextForm): SingleValue {
  return ofScalar({ fromJson: (json) => (typeof json === 'string' ? parse(json) : undefined), fromText: parse, form, zero }, shownText, hint);
}

function shownText(json: unknown): string {
  return typeof json === 'string' ? quoted(json) : kindOf(json);
}

function wordsOf(desc: DescEnum): TextForm {
  const numbers = new Map(desc.values.filter(({ number }) => number !== 0).map(({ number }) => [enumWord(desc, number) as string, number]));
  return { parse: (text) => numbers.get(text), form: `one of ${enumWords(desc).join(', ')}`, zero: () => 0 };
}

function freeJson(fits: (json: unknown) => boolean, form: string, standIn: () => unknown): SingleValue {
  return {
    fromJson: (json, path, out) => {
      if (fits(json)) return json;
      report(out, path, () => `must be ${form}, not ${kindOf(json)}`);
      return undefined;
    },
    fromText: undefined,
    takesNull: false,
    standIn,
  };
}
