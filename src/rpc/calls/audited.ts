import type { DescField } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { DomainError } from '../../kernel/errors';
import { isGivenId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import type { AuditedCall, AuditedEnd } from '../auditor';
import type { MethodFacts } from '../descriptors';
import { toWire } from '../errorTable';
import { enumWord } from '../json/enumWords';
import type { OpenCall } from '../openCall';

/** What the audit trail is told of a call; `request`: undefined while none was read. */
export function auditedCall(call: OpenCall, facts: MethodFacts, request?: unknown): AuditedCall {
  const principal = call.principal as Principal | undefined;
  const { path, requestId, peer, refusedKey, unknownKeyPrefix: keyPrefix } = call;
  const key = principal ?? refusedKey;
  const ofInstallation = facts.adminOnly && key?.isAdmin === true; // that another key tried, its organization may know
  return { method: path, requestId, peer, key, keyPrefix, resource: resourceOf(facts, request), fields: fieldsOf(facts, request), ofInstallation };
}

const KEY_REASONS = new Set([status.UNAUTHENTICATED, status.PERMISSION_DENIED]);
// The trail lies on the disk that is full.
const NOT_AUDITED = new Set(['cancelled', 'shutting_down', 'storage_full', 'storage_read_only']);

/** Whether the trail tells of a call that was refused before it began: of every change, and of a caller that may not or not so often. */
export function isAudited({ changes }: MethodFacts, code: status, reason: string): boolean {
  return changes ? code !== status.OK && !NOT_AUDITED.has(reason) : KEY_REASONS.has(code) || reason === 'rate_limited';
}

const NOBODY_REFUSED = new Set([status.INTERNAL, status.UNAVAILABLE, status.CANCELLED, status.DEADLINE_EXCEEDED]);

/** Whether what was not done was refused, or failed: by the server, or because the caller went away or gave it too little time. */
export function withoutSuccess(code: status): 'refused' | 'failed' {
  return NOBODY_REFUSED.has(code) ? 'failed' : 'refused';
}

/** How the handler of a change ended; an answer can say by itself that nothing was done, as the status rules of its method tell. */
export function endOf(facts: MethodFacts, response: unknown, error?: unknown): Pick<AuditedEnd, 'outcome' | 'reason'> {
  if (error !== undefined) {
    const { grpc, reason } = toWire(error, '');
    return { outcome: error instanceof DomainError && error.isInDoubt ? 'unknown' : withoutSuccess(grpc), reason };
  }
  const { notDone } = facts;
  if (notDone && wordOf(facts, response, notDone.field) === notDone.value) return { outcome: 'refused', reason: notDone.reason };
  const rule = facts.statusRules.find(({ field, value }) => wordOf(facts, response, field) === value);
  return rule && rule.status >= 400 ? { outcome: 'refused', reason: rule.value } : { outcome: 'succeeded', reason: '' };
}

function wordOf({ response: { fields } }: MethodFacts, response: unknown, jsonName: string): string | undefined {
  const field = fields.find((one) => one.jsonName === jsonName);
  const value = field && (response as Readonly<Record<string, unknown>> | undefined)?.[field.localName];
  return field?.enum && typeof value === 'number' ? enumWord(field.enum, value) : String(value);
}

/** What a call is about: its HTTP route without the base, as far as the request names it, and the id of what it created: `devices/<id>/commands/<id>`. */
export function resourceOf(facts: MethodFacts, request: unknown, response?: unknown): string {
  const given = request as Readonly<Record<string, unknown>> | undefined;
  const steps: string[] = [];
  const named = stepsOf(facts);
  for (const { word, variable } of named) {
    const step = variable === undefined ? word : idIn(given, variable);
    if (step === undefined) return steps.join('/');
    steps.push(step);
  }
  const created = createdId(facts, response, given, named.at(-1)?.variable === undefined);
  return [...steps, ...(created === undefined ? [] : [created])].join('/');
}

interface Step {
  readonly word: string;
  /** The local name of the field that stands here. */
  readonly variable: string | undefined;
}

/** The steps of the methods' resources, read once. */
const known = new WeakMap<MethodFacts, readonly Step[]>();

function stepsOf(facts: MethodFacts): readonly Step[] {
  const steps = known.get(facts) ?? readSteps(facts);
  known.set(facts, steps);
  return steps;
}

/** Of the route that names most. What stands behind an id and is no collection says what is done, which the method says too. */
function readSteps({ routes }: MethodFacts): readonly Step[] {
  const [main] = routes.toSorted((one, other) => other.inPath.length - one.inPath.length);
  const words = main?.route.replace(/^\/api(?:\/v\d+)?\//, '').replace(/:\w+$/, '').replace(/\}\/[\w-]*[^s/}]$/, '}').split('/') ?? [];
  return words.map((word) => {
    const name = /^\{(\w+)\}$/.exec(word)?.[1];
    return { word, variable: name === undefined ? undefined : camel(name) };
  });
}

/** The names of the fields that a request gives; its organization aside. */
export function fieldsOf(facts: MethodFacts, request: unknown): string[] {
  if (!request) return [];
  const given = request as Readonly<Record<string, unknown>>;
  return facts.request.fields.filter((field) => field.name !== 'organization_id' && isGiven(field, given[field.localName])).map(({ name }) => name);
}

/** Behind an id stands only the key that takes the place of another; behind a collection whatever was made in it. */
function createdId(facts: MethodFacts, response: unknown, request: Readonly<Record<string, unknown>> | undefined, inCollection: boolean): string | undefined {
  const answer = response as Readonly<Record<string, unknown>> | undefined;
  const keyId = idIn(answer?.['apiKey'], 'id');
  const id = inCollection ? (idIn(answer, 'executionId') ?? idIn(answer, 'id') ?? keyId ?? idIn(answer, 'userId')) : keyId;
  const isNamed = facts.routes[0]?.inPath.some((name) => request?.[camel(name)] === id);
  return isNamed ? undefined : id;
}

function idIn(message: unknown, name: string): string | undefined {
  const id = (message as Readonly<Record<string, unknown>> | undefined)?.[name];
  return typeof id === 'string' && isGivenId(id) ? id : undefined;
}

/** A field without presence is the same on the wire where it is empty and where it was left out. */
function isGiven({ presence, fieldKind }: DescField, value: unknown): boolean {
  if (presence !== FeatureSet_FieldPresence.IMPLICIT) return value !== undefined;
  if (fieldKind === 'map') return Object.keys(value ?? {}).length > 0;
  return value !== undefined && value !== '' && value !== 0 && value !== false && !(Array.isArray(value) && value.length === 0);
}

const camel = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
