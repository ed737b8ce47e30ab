import { DomainError } from '../../kernel/errors';
import type { Principal } from '../../kernel/principal';
import { isWithin } from './addresses';
import { reachOf, type ApiKey, type KeyGrant, type KeyRestrictions } from './apiKey';

/**
 * What a grant holds beyond its giver's own key, in words; empty: nothing. Both are compared as they are written, by ids: a device is not
 * inside because it is bound to a connection of the giver's now, since it may be bound elsewhere tomorrow.
 */
export function beyondOwn(grant: KeyGrant, own: Principal): string[] {
  const beyond = grant.scopes.filter((scope) => !own.scopes.has(scope)).map((scope) => `scope ${scope}`);
  const { connections } = own;
  if (connections !== 'all') {
    if (grant.allConnections) beyond.push('all connections');
    beyond.push(...outside(grant.connectionIds, connections, 'connection'));
  }
  beyond.push(...beyondReach(grant.restrictions, own));
  if (own.allowedAddresses.length > 0) {
    if (grant.allowedAddresses.length === 0) beyond.push('every address');
    beyond.push(...grant.allowedAddresses.filter((address) => !own.allowedAddresses.some((around) => isWithin(address, around))).map((address) => `address ${address}`));
  }
  if (own.expiresAt !== undefined && (grant.expiresAt ?? Infinity) > own.expiresAt) beyond.push(`an end after ${new Date(own.expiresAt).toISOString()}`);
  return beyond;
}

/** The same for a key that is there. Of the caller's own key those scopes do not count that the role of its owner takes away from both. */
export function beyondOf(key: ApiKey, caller: Principal): string[] {
  const beyond = beyondOwn(key.id === caller.keyId ? { ...key, scopes: key.scopes.filter((scope) => caller.scopes.has(scope)) } : key, caller);
  return key.isAdmin && !caller.isAdmin ? [...beyond, 'the whole installation'] : beyond;
}

/** Whether a key may see another: a limited one sees those that do no more than itself. */
export function sees(caller: Principal, key: ApiKey): boolean {
  return !caller.reach || beyondOf(key, caller).length === 0;
}

/** A grant with what it leaves open taken from its giver's own key, where that is limited. */
export function withinOwn(grant: KeyGrant, own: Principal): KeyGrant {
  return {
    ...grant,
    restrictions: restrictionsWithin(grant.restrictions, own),
    allowedAddresses: grant.allowedAddresses.length > 0 ? grant.allowedAddresses : own.allowedAddresses,
    expiresAt: grant.expiresAt ?? own.expiresAt,
  };
}

/** Throws `scope_exceeds_own` if there is anything beyond. */
export function refuseBeyond(beyond: readonly string[]): void {
  if (beyond.length === 0) return;
  const named = beyond.slice(0, 5).join(', ') + (beyond.length > 5 ? ` (and ${beyond.length - 5} more)` : '');
  throw new DomainError('permission_denied', 'scope_exceeds_own', `a key cannot give or change more than it holds: ${named}; leave that out, or call with a key that holds it`);
}

function restrictionsWithin(wanted: KeyRestrictions | undefined, { reach }: Principal): KeyRestrictions | undefined {
  if (!reach) return wanted;
  const given = reachOf(wanted);
  const devices = given?.devices ?? reach.devices;
  const commands = given?.commands ?? reach.commands;
  return { deviceIds: listed(devices?.ids), connectionIds: listed(devices?.connectionIds), commandIds: listed(commands) };
}

function listed(ids: ReadonlySet<string> | undefined): string[] {
  return ids ? [...ids] : [];
}

function beyondReach(restrictions: KeyRestrictions | undefined, { reach }: Principal): string[] {
  const given = reachOf(restrictions);
  const beyond: string[] = [];
  if (reach?.devices) {
    if (given?.devices) beyond.push(...outside(given.devices.ids, reach.devices.ids, 'device'), ...outside(given.devices.connectionIds, reach.devices.connectionIds, 'connection'));
    else beyond.push('every device');
  }
  if (reach?.commands) {
    if (given?.commands) beyond.push(...outside(given.commands, reach.commands, 'command'));
    else beyond.push('every command');
  }
  return beyond;
}

function outside(ids: Iterable<string>, own: ReadonlySet<string>, thing: string): string[] {
  return [...ids].filter((id) => !own.has(id)).map((id) => `${thing} ${id}`);
}
