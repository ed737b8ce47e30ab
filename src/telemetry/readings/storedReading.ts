import type { TimeSource } from '../../connections';
import type { JsonValue } from '../../kernel/jsonValue';
import type { ValueType } from '../../sensorTemplates';

/** Who reported the time of a reading; `received`: nobody, it is the time of receipt. */
export type ReadingTimeSource = TimeSource | 'received';

/** A stored reading. */
export interface StoredReading {
  readonly sensorId: string;
  readonly valueType: ValueType;
  /** A value of the type `valueType`. */
  readonly value: JsonValue;
  /** The time of the measurement, Unix milliseconds. */
  readonly time: number;
  /**
   * Who reported `time`; `received`: it is the time of receipt. Undefined if not known (stored by an older version).
   */
  readonly timeSource?: ReadingTimeSource | undefined;
  /** Its position in the order in which readings are stored (see ReadingSequence). */
  readonly position: number;
}

/** The columns of a value in the table `readings`. */
export interface ValueColumns {
  readonly kind: number;
  readonly num: number | null;
  readonly txt: string | null;
}

/** The number of positions per millisecond. */
export const POSITIONS_PER_MS = 1024;

/** Less than every position, so that a key with it comes before all readings at its time. */
export const BEFORE_ALL_POSITIONS = -1;

/** Greater than every position. */
export const AFTER_ALL_POSITIONS = Number.MAX_SAFE_INTEGER;

/**
 * The maximum distance between the time and the position of a reading, in positions (one minute). Readings with a
 * greater distance are late and are in the index `readings_late`, whose migration contains the same number.
 */
export const LATE_POSITIONS = 60_000 * POSITIONS_PER_MS;

/** The stored numbers of the value types, which must never change. */
const KINDS: Readonly<Record<ValueType, number>> = { number: 1, integer: 2, boolean: 3, string: 4, json: 5 };
/**
 * The stored numbers of the time sources, which must never change. SQLite stores 0 and 1 without a byte of their own.
 */
const TIME_SOURCES: Readonly<Record<ReadingTimeSource, number>> = { received: 0, device: 1, gateway: 2, network: 3 };
const TIME_SOURCES_BY_NUMBER = new Map(
  Object.entries(TIME_SOURCES).map(([source, number]) => [number, source as ReadingTimeSource]),
);
// A string with a NUL or an unpaired surrogate is stored as JSON, because not every database engine can store it.
const ESCAPED_STRING = 6;
const UNSTORABLE = /[\0\p{Cs}]/u;
const TYPES_BY_KIND = new Map(Object.entries(KINDS).map(([type, kind]) => [kind, type as ValueType]));

/**
 * Converts a value to the columns of the table: numbers and booleans (0 or 1) to `num`, all others to `txt`. `kind`
 * stands for the value type, or marks a string that is stored as JSON because not every database engine can store it.
 */
export function toColumns(valueType: ValueType, value: JsonValue): ValueColumns {
  const kind = KINDS[valueType];
  if (valueType === 'json') return { kind, num: null, txt: JSON.stringify(value) };
  if (typeof value !== 'string') return { kind, num: Number(value), txt: null };
  return UNSTORABLE.test(value)
    ? { kind: ESCAPED_STRING, num: null, txt: JSON.stringify(value) }
    : { kind, num: null, txt: value };
}

/** Converts the columns of a row to its value. Throws RangeError for an unknown kind. */
export function getValue({ kind, num, txt }: ValueColumns): Pick<StoredReading, 'valueType' | 'value'> {
  if (kind === ESCAPED_STRING) return { valueType: 'string', value: JSON.parse(txt ?? '""') as string };
  const valueType = TYPES_BY_KIND.get(kind);
  if (!valueType) throw new RangeError(`unknown kind of reading: ${kind}`);
  if (valueType === 'json') return { valueType, value: JSON.parse(txt ?? 'null') as JsonValue };
  if (valueType === 'string') return { valueType, value: txt ?? '' };
  return { valueType, value: valueType === 'boolean' ? num === 1 : (num ?? 0) };
}

/** Converts a time source to the column of the tables; null if it is not known. */
export function toTimeSourceColumn(source: ReadingTimeSource | undefined): number | null {
  return source === undefined ? null : TIME_SOURCES[source];
}

/** Converts the column of a row to the time source; undefined if it is not known. */
export function getTimeSource(column: number | null): ReadingTimeSource | undefined {
  return column === null ? undefined : TIME_SOURCES_BY_NUMBER.get(column);
}

/** Returns the first position of the readings that the server receives in a millisecond (Unix milliseconds). */
export function getFirstPosition(time: number): number {
  return time * POSITIONS_PER_MS;
}

/**
 * Returns the time at which the server received a reading, Unix milliseconds: a position is that time times
 * POSITIONS_PER_MS, plus a counter.
 */
export function getReceivedAt(position: number): number {
  return Math.floor(position / POSITIONS_PER_MS);
}
