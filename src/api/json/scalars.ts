import { ScalarType } from '@bufbuild/protobuf';

/** Reads values of one scalar type. Both functions return undefined for an invalid value. */
export interface Scalar {
  readonly fromJson: (json: unknown) => unknown;
  /** Reads a string of a query or path. */
  readonly fromText: (text: string) => unknown;
  /** The expected form, for error messages. */
  readonly form: string;
  /** Creates the value that ts-proto uses for an absent field. */
  readonly createDefault: () => unknown;
}

/** The minimum and maximum of each integer type; 64-bit types are limited to the range in which a double is exact. */
export const INTEGER_RANGES: Readonly<Partial<Record<ScalarType, readonly [number, number]>>> = {
  [ScalarType.INT32]: [-(2 ** 31), 2 ** 31 - 1],
  [ScalarType.SINT32]: [-(2 ** 31), 2 ** 31 - 1],
  [ScalarType.SFIXED32]: [-(2 ** 31), 2 ** 31 - 1],
  [ScalarType.UINT32]: [0, 2 ** 32 - 1],
  [ScalarType.FIXED32]: [0, 2 ** 32 - 1],
  [ScalarType.INT64]: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  [ScalarType.SINT64]: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  [ScalarType.SFIXED64]: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  [ScalarType.UINT64]: [0, Number.MAX_SAFE_INTEGER],
  [ScalarType.FIXED64]: [0, Number.MAX_SAFE_INTEGER],
};

const INTEGER_TEXT = /^-?(?:0|[1-9]\d{0,18})$/;
const NUMBER_TEXT = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
// In characters. The longest number without an exponent, 1.7e308, has 309 digits.
const MAX_NUMBER_LENGTH = 400;
// The largest 32-bit float.
const MAX_FLOAT = 3.4028234663852886e38;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

const OTHER_SCALARS: Readonly<Partial<Record<ScalarType, Scalar>>> = {
  [ScalarType.STRING]: {
    fromJson: (json) => (typeof json === 'string' ? json : undefined),
    fromText: (text) => text,
    form: 'a string',
    createDefault: () => '',
  },
  [ScalarType.BOOL]: {
    fromJson: (json) => (typeof json === 'boolean' ? json : undefined),
    fromText: (text) => BOOLEANS.get(text),
    form: 'true or false',
    createDefault: () => false,
  },
  [ScalarType.BYTES]: {
    fromJson: (json) => (typeof json === 'string' ? parseBytes(json) : undefined),
    fromText: parseBytes,
    form: 'bytes in base64',
    createDefault: () => Buffer.alloc(0),
  },
  [ScalarType.FLOAT]: createRealScalar(toFloat, 'a number in the range of a 32-bit float'),
};

/** The minimum and maximum that the field rules allow. */
export interface AllowedRange {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/**
 * Returns the reader of a scalar type. `allowed` only affects the message: a number outside of it that fits the type is
 * read, and the field rules reject it later.
 */
export function getScalar(type: ScalarType, allowed: AllowedRange = {}): Scalar {
  const range = INTEGER_RANGES[type];
  return range ? createIntegerScalar(range, allowed) : (OTHER_SCALARS[type] ?? createRealScalar(toDouble, 'a number'));
}

/** Decodes base64 in the standard or URL alphabet, with or without padding; undefined for other strings. */
function parseBytes(text: string): Buffer | undefined {
  if (!BASE64.test(text)) return undefined;
  // Four digits encode three bytes. With padding, the length is a multiple of four; without it, one digit is too little
  // for a byte.
  const rest = text.length % 4;
  const hasValidLength = text.endsWith('=') ? rest === 0 : rest !== 1;
  return hasValidLength ? Buffer.from(text, 'base64') : undefined;
}

/**
 * Creates the reader of an integer type. A JSON number outside the range of the type is invalid; `min` and `max` of the
 * field rules only appear in the message.
 */
function createIntegerScalar(
  [typeMin, typeMax]: readonly [number, number],
  { min = typeMin, max = typeMax }: AllowedRange,
): Scalar {
  // "+ 0" turns -0, which JSON can contain, into 0.
  const parseInRange = (value: number): number | undefined =>
    Number.isInteger(value) && value >= typeMin && value <= typeMax ? value + 0 : undefined;
  return {
    fromJson: (json) => (typeof json === 'number' ? parseInRange(json) : undefined),
    fromText: (text) => (INTEGER_TEXT.test(text) ? parseInRange(Number(text)) : undefined),
    form: `a whole number from ${Math.max(typeMin, min)} to ${Math.min(typeMax, max)}`,
    createDefault: () => 0,
  };
}

/**
 * Creates the reader of a floating-point type. `convert` returns undefined for a number that the type cannot represent.
 */
function createRealScalar(convert: (value: number) => number | undefined, form: string): Scalar {
  return {
    fromJson: (json) => (typeof json === 'number' ? convert(json) : undefined),
    fromText: (text) =>
      text.length <= MAX_NUMBER_LENGTH && NUMBER_TEXT.test(text) ? convert(Number(text)) : undefined,
    form,
    createDefault: () => 0,
  };
}

function toDouble(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function toFloat(value: number): number | undefined {
  return Math.abs(value) <= MAX_FLOAT ? Math.fround(value) : undefined;
}
