import type { Principal } from '../../kernel/principal';
import type { AuditedCall } from '../auditor';
import type { MethodFacts } from '../descriptors';
import type { OpenCall } from '../openCall';

/** An id as this server gives them out, or the name of a system role; nothing else that a caller writes gets into the trail. */
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^(?:owner|admin|operator|viewer)$/i;

/** What the audit trail is told of a call; `request`: undefined while none was read. */
export function auditedCall(call: OpenCall, facts: MethodFacts, request?: unknown): AuditedCall {
  const { path, requestId, peer, refusedKey } = call;
  return { method: path, requestId, peer, key: (call.principal as Principal | undefined) ?? refusedKey, resource: resourceOf(facts, request), fields: fieldsOf(facts, request) };
}

/** What a call is about: its main HTTP route without the base, each variable as the request has it, and the id of what it created: `devices/<id>/commands/<id>`. */
export function resourceOf(facts: MethodFacts, request: unknown, response?: unknown): string {
  const [route] = facts.routes;
  if (!route) return '';
  const [path = ''] = route.route.replace(/^\/api(?:\/v\d+)?\//, '').split(':');
  const given = request as Readonly<Record<string, unknown>> | undefined;
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => idIn(given, camel(name)) ?? '-');
  const created = createdId(facts, response, given);
  return created === undefined ? named : `${named}/${created}`;
}

/** The names of the fields that a request gives; its organization aside. */
export function fieldsOf(facts: MethodFacts, request: unknown): string[] {
  if (!request) return [];
  const given = request as Readonly<Record<string, unknown>>;
  return facts.request.fields.filter(({ name, localName }) => name !== 'organization_id' && isGiven(given[localName])).map(({ name }) => name);
}

function createdId(facts: MethodFacts, response: unknown, request: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const answer = response as Readonly<Record<string, unknown>> | undefined;
  const id = idIn(answer, 'executionId') ?? idIn(answer, 'id') ?? idIn(answer?.['apiKey'], 'id') ?? idIn(answer, 'userId');
  const isNamed = facts.routes[0]?.inPath.some((name) => request?.[camel(name)] === id);
  return isNamed ? undefined : id;
}

function idIn(message: unknown, name: string): string | undefined {
  const id = (message as Readonly<Record<string, unknown>> | undefined)?.[name];
  return typeof id === 'string' && ID.test(id) ? id : undefined;
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== '' && value !== 0 && value !== false && !(Array.isArray(value) && value.length === 0);
}

const camel = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
