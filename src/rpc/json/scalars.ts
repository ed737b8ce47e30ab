import { ScalarType } from '@bufbuild/protobuf';

/** How values of one scalar type are read. Both give undefined for what is none. */
export interface Scalar {
  readonly fromJson: (json: unknown) => unknown;
  /** From a query or a path. */
  readonly fromText: (text: string) => unknown;
  /** What it is, to say in an error. */
  readonly form: string;
  /** What ts-proto has where nothing came. */
  readonly zero: () => unknown;
}

/** The least and the greatest value of each type of integer; 64 bits as far as a double is exact. */
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
const LONGEST_NUMBER = 400;
const LARGEST_FLOAT = 3.4028234663852886e38;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

const OTHERS: Readonly<Partial<Record<ScalarType, Scalar>>> = {
  [ScalarType.STRING]: { fromJson: (json) => (typeof json === 'string' ? json : undefined), fromText: (text) => text, form: 'a text', zero: () => '' },
  [ScalarType.BOOL]: { fromJson: (json) => (typeof json === 'boolean' ? json : undefined), fromText: (text) => BOOLEANS.get(text), form: 'true or false', zero: () => false },
  [ScalarType.BYTES]: { fromJson: (json) => (typeof json === 'string' ? bytesOf(json) : undefined), fromText: bytesOf, form: 'bytes in base64', zero: () => Buffer.alloc(0) },
  [ScalarType.FLOAT]: real(toFloat, 'a number that 32 bits can hold'),
};

/** The least and the greatest value that a field takes; the field rules refuse others. */
export interface TakenRange {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** The reading of a scalar type. `taken` is only told: a number beyond it that the type can hold is read. */
export function scalarOf(type: ScalarType, taken: TakenRange = {}): Scalar {
  const range = INTEGER_RANGES[type];
  return range ? integer(range, taken) : (OTHERS[type] ?? real(toDouble, 'a number'));
}

/** The bytes of a text in base64, standard or for URLs, padded or not; undefined for any other text. */
export function bytesOf(text: string): Buffer | undefined {
  if (!BASE64.test(text)) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const fits = padding === 0 ? text.length % 4 !== 1 : text.length % 4 === 0;
  return fits ? Buffer.from(text, 'base64') : undefined;
}

function integer([least, most]: readonly [number, number], { min = least, max = most }: TakenRange): Scalar {
  // "+ 0" turns -0 into 0.
  const within = (value: number): number | undefined => (Number.isInteger(value) && value >= least && value <= most ? value + 0 : undefined);
  return {
    fromJson: (json) => (typeof json === 'number' ? within(json) : undefined),
    fromText: (text) => (INTEGER_TEXT.test(text) ? within(Number(text)) : undefined),
    form: `a whole number from ${Math.max(least, min)} to ${Math.min(most, max)}`,
    zero: () => 0,
  };
}

function real(held: (value: number) => number | undefined, form: string): Scalar {
  return {
    fromJson: (json) => (typeof json === 'number' ? held(json) : undefined),
    fromText: (text) => (text.length <= LONGEST_NUMBER && NUMBER_TEXT.test(text) ? held(Number(text)) : undefined),
    form,
    zero: () => 0,
  };
}

function toDouble(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function toFloat(value: number): number | undefined {
  return Math.abs(value) <= LARGEST_FLOAT ? Math.fround(value) : undefined;
}
