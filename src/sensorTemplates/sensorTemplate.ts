/** The type of a sensor's values. */
export type ValueType = 'number' | 'integer' | 'boolean' | 'string' | 'json';

/** What a sensor measures. Times are Unix milliseconds. */
export interface SensorTemplate {
  readonly id: string;
  /** Undefined: comes with the server, is visible to every organization and cannot be changed. */
  readonly organizationId: string | undefined;
  /** The normalized key that names the measured thing. */
  readonly keyNameId: string;
  readonly keyName: string;
  /** The kind of sensor in words. */
  readonly sensorType: string;
  readonly valueType: ValueType;
  /** An id of UNITS; empty: none. */
  readonly unitMeasurementId: string;
  /** Empty: none. */
  readonly description: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

/** The name of a measured thing, the same across devices of all makers. Times are Unix milliseconds. */
export interface NormalizedKey {
  readonly id: string;
  /** Undefined: comes with the server, is visible to every organization and cannot be changed. */
  readonly organizationId: string | undefined;
  /** Unique in its organization and among the system keys, whatever the case. */
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

/** What the `owner` column holds for records that come with the server. */
export const SYSTEM_OWNER = 'system';

/** Position in a list of own records, newest first, and then those that come with the server. */
export interface OwnThenSystemPosition {
  readonly system: boolean;
  readonly createdAt: number;
  readonly id: string;
}

/** Where a record stands in such a list. */
export function positionOf({ organizationId, createdAt, id }: { readonly organizationId: string | undefined; readonly createdAt: number; readonly id: string }): OwnThenSystemPosition {
  return { system: organizationId === undefined, createdAt, id };
}
