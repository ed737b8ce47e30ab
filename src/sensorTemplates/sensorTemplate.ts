/** The type of a sensor's values. */
export type ValueType = 'number' | 'integer' | 'boolean' | 'string' | 'json';

/** Describes what a sensor measures. Times are Unix milliseconds. */
export interface SensorTemplate {
  readonly id: string;
  /** Undefined: a system template, visible to every organization and read-only. */
  readonly organizationId: string | undefined;
  /** The normalized key that names the measured quantity. */
  readonly keyNameId: string;
  readonly keyName: string;
  /** The kind of sensor as text. */
  readonly sensorType: string;
  readonly valueType: ValueType;
  /** An id of UNITS, or empty. */
  readonly unitMeasurementId: string;
  /** May be empty. */
  readonly description: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

/** The standard name of a measured quantity, the same for devices of all manufacturers. Times are Unix milliseconds. */
export interface NormalizedKey {
  readonly id: string;
  /** Undefined: a system key, visible to every organization and read-only. */
  readonly organizationId: string | undefined;
  /** Unique in its organization and among the system keys (case-insensitive). */
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

/** The value of the `owner` column of system records. */
export const SYSTEM_OWNER = 'system';

/** A position in a list of own records, newest first, followed by system records. */
export interface OwnThenSystemPosition {
  readonly system: boolean;
  readonly createdAt: number;
  readonly id: string;
}

/** Returns the position of a record in such a list. */
export function getPosition({
  organizationId,
  createdAt,
  id,
}: {
  readonly organizationId: string | undefined;
  readonly createdAt: number;
  readonly id: string;
}): OwnThenSystemPosition {
  return { system: organizationId === undefined, createdAt, id };
}
