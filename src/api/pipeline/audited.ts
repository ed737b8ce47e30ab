import type { DescField } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { DomainError } from '../../kernel/errors';
import { isServerId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import type { AuditedCall, AuditedEnd } from './auditor';
import type { MethodDescriptor } from '../descriptors/descriptors';
import { toWire } from '../errors/errorTable';
import { getEnumWord } from '../json/enumWords';
import type { ActiveCall } from './activeCall';

/** Describes a call for the audit trail. `request` is undefined before the request message was read. */
export function toAuditedCall(call: ActiveCall, descriptor: MethodDescriptor, request?: unknown): AuditedCall {
  const principal = call.principal as Principal | undefined;
  const { path, requestId, peer, rejectedKey, unknownKeyPrefix: keyPrefix } = call;
  const key = principal ?? rejectedKey;
  // A method for admin keys concerns the whole installation. An attempt with another key is recorded for the
  // organization of that key.
  const isInstallationWide = descriptor.adminOnly && key?.isAdmin === true;
  return {
    method: path,
    requestId,
    peer,
    key,
    keyPrefix,
    resource: getResource(descriptor, request),
    fields: listFields(descriptor, request),
    isInstallationWide,
  };
}

const AUTHORIZATION_CODES = new Set([status.UNAUTHENTICATED, status.PERMISSION_DENIED]);
// Reasons of rejected changes that are not recorded. While the disk is full or read-only, the audit trail cannot be
// written either.
const UNRECORDED_REASONS = new Set([
  'cancelled',
  'connection_lost',
  'shutting_down',
  'storage_full',
  'storage_read_only',
]);

/**
 * Whether the audit trail records a call that was refused before it began: every change, and other calls if the caller
 * is not authorized or is rate limited.
 */
export function isAudited({ changes }: MethodDescriptor, code: status, reason: string): boolean {
  if (changes) return code !== status.OK && !UNRECORDED_REASONS.has(reason);
  return AUTHORIZATION_CODES.has(code) || reason === 'rate_limited';
}

const FAILURE_CODES = new Set([status.INTERNAL, status.UNAVAILABLE, status.CANCELLED, status.DEADLINE_EXCEEDED]);

/**
 * Returns the outcome of an unsuccessful call: `failed` if the server failed, the client cancelled or the deadline
 * passed; otherwise `refused`.
 */
export function getFailureOutcome(code: status): 'refused' | 'failed' {
  return FAILURE_CODES.has(code) ? 'failed' : 'refused';
}

/**
 * Returns the outcome of the handler of a change. A response can also say that nothing was changed, and then counts as
 * refused: if a field has the value that the proto option `notPerformed` declares for that, or the value for which a
 * status rule of the method (field, value, HTTP status) sets an error status.
 */
export function getOutcome(
  descriptor: MethodDescriptor,
  response: unknown,
  error?: unknown,
): Pick<AuditedEnd, 'outcome' | 'reason'> {
  if (error !== undefined) {
    const { grpc, reason } = toWire(error, '');
    return { outcome: error instanceof DomainError && error.isInDoubt ? 'unknown' : getFailureOutcome(grpc), reason };
  }
  const { notPerformed } = descriptor;
  if (notPerformed && formatField(descriptor, response, notPerformed.field) === notPerformed.value)
    return { outcome: 'refused', reason: notPerformed.reason };
  const matchingRule = descriptor.statusRules.find(
    ({ field, value }) => formatField(descriptor, response, field) === value,
  );
  return matchingRule && matchingRule.status >= 400
    ? { outcome: 'refused', reason: matchingRule.value }
    : { outcome: 'succeeded', reason: '' };
}

/** Formats a top-level response field as in JSON, without quotes. */
function formatField(
  { response: { fields } }: MethodDescriptor,
  response: unknown,
  jsonName: string,
): string | undefined {
  const field = fields.find((candidate) => candidate.jsonName === jsonName);
  const value = field && (response as Readonly<Record<string, unknown>> | undefined)?.[field.localName];
  return field?.enum && typeof value === 'number' ? getEnumWord(field.enum, value) : String(value);
}

/**
 * Returns the resource of a call, for example `devices/<id>/commands/<id>`: its HTTP route without the base path, up to
 * the first id that the request does not set, and the id of a created record.
 */
export function getResource(descriptor: MethodDescriptor, request: unknown, response?: unknown): string {
  const requestFields = request as Readonly<Record<string, unknown>> | undefined;
  const segments: string[] = [];
  const pathSegments = listSegments(descriptor);
  for (const { word, variable } of pathSegments) {
    const segment = variable === undefined ? word : findId(requestFields, variable);
    if (segment === undefined) return segments.join('/');
    segments.push(segment);
  }
  const createdId = findCreatedId(descriptor, response, requestFields, pathSegments.at(-1)?.variable === undefined);
  return [...segments, ...(createdId === undefined ? [] : [createdId])].join('/');
}

interface Segment {
  readonly word: string;
  /** The local name of the field whose value replaces the word; undefined for a fixed word. */
  readonly variable: string | undefined;
}

/** The path segments of the methods' resources, cached. */
const segmentsByMethod = new WeakMap<MethodDescriptor, readonly Segment[]>();

/** Returns the path segments of a method's resource, from the cache. */
function listSegments(descriptor: MethodDescriptor): readonly Segment[] {
  const segments = segmentsByMethod.get(descriptor) ?? readSegments(descriptor);
  segmentsByMethod.set(descriptor, segments);
  return segments;
}

/**
 * Reads the segments of the route with the most ids: `/api/v2/devices/{device_id}/restart` becomes `devices` and the
 * variable `deviceId`. A word after an id that is not a collection (which ends in s) names an action; it is left out,
 * because the event contains the method anyway.
 */
function readSegments({ routes }: MethodDescriptor): readonly Segment[] {
  const [routeWithMostIds] = routes.toSorted((first, second) => second.pathFields.length - first.pathFields.length);
  const words =
    routeWithMostIds?.route
      .replace(/^\/api(?:\/v\d+)?\//, '') // the base path
      .replace(/:\w+$/, '') // a custom verb, as in `:cancel`
      .replace(/\}\/[\w-]*[^s/}]$/, '}') // an action after an id
      .split('/') ?? [];
  return words.map((word) => {
    const name = /^\{(\w+)\}$/.exec(word)?.[1];
    return { word, variable: name === undefined ? undefined : toCamelCase(name) };
  });
}

/**
 * Lists the proto names of the fields that a request sets, without its organization, which the trail records anyway.
 */
export function listFields(descriptor: MethodDescriptor, request: unknown): string[] {
  if (!request) return [];
  const requestFields = request as Readonly<Record<string, unknown>>;
  return descriptor.request.fields
    .filter((field) => field.name !== 'organization_id' && isSet(field, requestFields[field.localName]))
    .map(({ name }) => name);
}

/**
 * Finds the id of the record that a response reports as created; undefined if there is none or the request already
 * names that record. If the route does not end with a collection, only a rotated API key creates a record: the new key.
 */
function findCreatedId(
  descriptor: MethodDescriptor,
  response: unknown,
  request: Readonly<Record<string, unknown>> | undefined,
  endsWithCollection: boolean,
): string | undefined {
  const result = response as Readonly<Record<string, unknown>> | undefined;
  const keyId = findId(result?.['apiKey'], 'id');
  const id = endsWithCollection
    ? (findId(result, 'executionId') ??
      findId(result, 'id') ??
      keyId ??
      findId(result?.['dashboard'], 'id') ??
      findId(result, 'userId'))
    : keyId;
  const isNamed = descriptor.routes[0]?.pathFields.some((name) => request?.[toCamelCase(name)] === id);
  return isNamed ? undefined : id;
}

/**
 * Lists the resources of the records that a response reports as created, if the method creates several: they are the
 * messages of its field `created`.
 */
export function listCreatedResources(descriptor: MethodDescriptor, request: unknown, response: unknown): string[] {
  const created = (response as Readonly<Record<string, unknown>> | undefined)?.['created'];
  if (!Array.isArray(created)) return [];
  const collection = getResource(descriptor, request);
  return created.flatMap((record: unknown) => {
    const id = findId(record, 'id');
    return id === undefined ? [] : [`${collection}/${id}`];
  });
}

/** Returns the field of a message if it is an id in a valid form; undefined otherwise. */
function findId(message: unknown, name: string): string | undefined {
  const id = (message as Readonly<Record<string, unknown>> | undefined)?.[name];
  return typeof id === 'string' && isServerId(id) ? id : undefined;
}

/**
 * Whether a request sets a field. A field without presence counts as unset if it has its default value, because the
 * encoding cannot distinguish the two.
 */
function isSet({ presence, fieldKind }: DescField, value: unknown): boolean {
  if (presence !== FeatureSet_FieldPresence.IMPLICIT) return value !== undefined;
  if (fieldKind === 'map') return Object.keys(value ?? {}).length > 0;
  return (
    value !== undefined &&
    value !== '' &&
    value !== 0 &&
    value !== false &&
    !(Array.isArray(value) && value.length === 0)
  );
}

const toCamelCase = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
