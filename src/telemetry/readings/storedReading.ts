import type { JsonValue } from '../../kernel/jsonValue';
import type { ValueType } from '../../sensorTemplates';

/** A reading as it is on disk. */
export interface StoredReading {
  readonly sensorId: string;
  readonly valueType: ValueType;
  /** Of that type. */
  readonly value: JsonValue;
  /** When it was taken, Unix milliseconds. */
  readonly time: number;
  /** Its place in the order in which readings are stored (ReadingPositions). */
  readonly position: number;
}

/** How a value lies in the table `readings`. */
export interface ValueColumns {
  readonly kind: number;
  readonly num: number | null;
  readonly txt: string | null;
}

/** How positions are made: so many of them to a millisecond. */
export const POSITIONS_PER_MS = 1024;

/** A reading that is stored further from its time than this, in positions (a minute), lies in the index `readings_late`; the migration that made it says the same number. */
export const LATE_POSITIONS = 60_000 * POSITIONS_PER_MS;

const KINDS: Readonly<Record<ValueType, number>> = { number: 1, integer: 2, boolean: 3, string: 4, json: 5 };
// A text that not every engine can hold, for a NUL or half of a surrogate pair, lies there as JSON.
const ESCAPED_STRING = 6;
const UNSTORABLE = /[\0\p{Cs}]/u;
const TYPES = new Map(Object.entries(KINDS).map(([type, kind]) => [kind, type as ValueType]));

/** A value of a sensor's type as it lies in the table. */
export function columnsOf(valueType: ValueType, value: JsonValue): ValueColumns {
  const kind = KINDS[valueType];
  if (valueType === 'json') return { kind, num: null, txt: JSON.stringify(value) };
  if (typeof value !== 'string') return { kind, num: Number(value), txt: null };
  return UNSTORABLE.test(value) ? { kind: ESCAPED_STRING, num: null, txt: JSON.stringify(value) } : { kind, num: null, txt: value };
}

/** What a row of the table holds. Throws RangeError for a kind that is none. */
export function valueOf({ kind, num, txt }: ValueColumns): Pick<StoredReading, 'valueType' | 'value'> {
  if (kind === ESCAPED_STRING) return { valueType: 'string', value: JSON.parse(txt ?? '""') as string };
  const valueType = TYPES.get(kind);
  if (!valueType) throw new RangeError(`a reading has no kind ${kind}`);
  if (valueType === 'json') return { valueType, value: JSON.parse(txt ?? 'null') as JsonValue };
  if (valueType === 'string') return { valueType, value: txt ?? '' };
  return { valueType, value: valueType === 'boolean' ? num === 1 : (num ?? 0) };
}

/** When the server took a reading in, Unix milliseconds. */
export function receivedAtOf(position: number): number {
  return Math.floor(position / POSITIONS_PER_MS);
}
