import { DomainError } from '../kernel/errors';
import { KeyRefused, type Principal } from '../kernel/principal';
import type { Authenticator } from './authenticator';
import type { MethodFacts } from './descriptors';
import type { OpenCall } from './openCall';

/** Who is asking, if its key passes, has calls left and holds the method's scope. Undefined for a method that needs no key. */
export function admit(authenticator: Authenticator, facts: MethodFacts, key: string | undefined, peer: string): Principal | undefined | Promise<Principal> {
  if (facts.scope === 'none') return undefined;
  const principal = authenticator.authenticate(key, peer);
  return principal instanceof Promise ? principal.then((known) => counted(authenticator, facts, known, peer)) : counted(authenticator, facts, principal, peer);
}

/** The same for a call that was admitted and counted before. */
export function admitAgain(authenticator: Authenticator, facts: MethodFacts, key: string | undefined, peer: string): Principal | undefined | Promise<Principal> {
  if (facts.scope === 'none') return undefined;
  const principal = authenticator.authenticate(key, peer);
  return principal instanceof Promise ? principal.then((known) => requireScope(facts, known)) : requireScope(facts, principal);
}

function counted(authenticator: Authenticator, facts: MethodFacts, principal: Principal, peer: string): Principal {
  authenticator.countCall(principal, peer);
  return requireScope(facts, principal);
}

/** The principal again, if it may call the method. Throws scope_missing, admin_key_required. */
export function requireScope(facts: MethodFacts, principal: Principal): Principal {
  if (facts.scope !== 'any' && !principal.scopes.has(facts.scope)) throw scopeMissing(facts, principal, `the key does not hold the scope ${facts.scope}, or the role of its owner does not; use one that was created with it`);
  if (facts.adminOnly && !principal.isAdmin) throw new KeyRefused(principal, 'permission_denied', 'admin_key_required', 'only an admin key may do this; make one on the command line of the server (plantroom keys create --admin)');
  requireOpen(facts, principal);
  return principal;
}

/** Some methods are for nobody who is limited. */
function requireOpen(facts: MethodFacts, principal: Principal): void {
  const { reach } = principal;
  if (reach?.devices && facts.limited.devices === 'refused') throw scopeMissing(facts, principal, 'the key is limited to some devices, and this concerns the whole organization; use one without that limit');
  if (reach?.commands && facts.limited.commands === 'refused') throw scopeMissing(facts, principal, 'the key is limited to reading and executing some commands; use one without that limit');
}

function scopeMissing(facts: MethodFacts, principal: Principal, message: string): KeyRefused {
  return new KeyRefused(principal, 'permission_denied', 'scope_missing', message, { metadata: { required_scope: facts.scope } });
}

/** Sets who calls, and the organization that its headers name. Throws organization_mismatch; organization_missing where the headers must name it. */
export function enter(call: OpenCall, principal: Principal, named: readonly string[], mustBeNamed: boolean): void {
  call.principal = principal;
  call.organizationId = principal.organizationId;
  for (const organization of named) requireSame(principal, organization);
  call.organizationNamed = named.length > 0;
  if (mustBeNamed && named.length === 0) throw organizationMissing();
}

/** Takes the organization that the message names into account. Throws organization_missing, organization_mismatch. */
export function enterWith(call: OpenCall, facts: MethodFacts, request: unknown): void {
  if (facts.scope === 'none') return;
  const named = facts.namesOrganization ? (request as { organizationId?: string }).organizationId : undefined;
  if (named) requireSame(call.principal, named);
  else if (!call.organizationNamed) throw organizationMissing();
}

function requireSame(principal: Principal, organization: string): void {
  if (organization === principal.organizationId) return;
  throw new DomainError('unauthenticated', 'organization_mismatch', 'the organization that the call names is not the one that the key was created in; name that one, in every place where one is named');
}

function organizationMissing(): DomainError {
  return new DomainError('unauthenticated', 'organization_missing', 'the call names no organization; give its id as x-organization-id (on a stream always there) or as organization_id in the request (in JSON and queries organizationId)');
}
