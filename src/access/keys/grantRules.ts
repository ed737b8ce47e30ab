import type { Violation } from '../../kernel/errors';
import { holdsKey } from '../../kernel/keyText';
import { isScope, SCOPES } from '../../kernel/scopes';
import { readAddresses } from './addresses';
import type { KeyGrant, KeyRestrictions } from './apiKey';

const GATEWAYS = 'gateways:write';

/** What people call a key. */
export interface KeyTexts {
  readonly name?: string | undefined;
  readonly note?: string | undefined;
}

/** What is wrong with a grant by itself; `now` in Unix milliseconds. Whether what it names exists is another question. */
export function grantViolations(grant: KeyGrant, now: number): Violation[] {
  const violations: Violation[] = [];
  grant.scopes.forEach((scope, at) => {
    if (!isScope(scope)) violations.push({ field: `scopes[${at}]`, description: `${holdsKey(scope) ? 'an API key' : JSON.stringify(scope)} is not a scope; choose from ${SCOPES.join(', ')}` });
  });
  violations.push(...connectionViolations(grant), ...restrictionViolations(grant), ...expiryViolations(grant.expiresAt, now));
  return [...violations, ...readAddresses(grant.allowedAddresses, 'allowedAddresses').violations];
}

/** What is wrong with the end of a key; `now` in Unix milliseconds. */
export function expiryViolations(expiresAt: number | undefined, now: number): Violation[] {
  return expiresAt === undefined || expiresAt > now ? [] : [{ field: 'expiresAt', description: 'is not in the future; give a later time, or none for a key that does not end' }];
}

/** What a key with these scopes cannot be limited to. */
export function restrictionViolations({ scopes, restrictions }: Pick<KeyGrant, 'scopes' | 'restrictions'>): Violation[] {
  if (!cleanRestrictions(restrictions) || !scopes.includes(GATEWAYS)) return [];
  return [{ field: 'restrictions', description: `is not for keys with ${GATEWAYS}, since a gateway serves all devices of its connection; leave one of the two out` }];
}

/** A name or a note is kept and shown: a key in it would be, too. */
export function textViolations(texts: KeyTexts): Violation[] {
  const wrong = (['name', 'note'] as const).filter((field) => holdsKey(texts[field] ?? ''));
  return wrong.map((field) => ({ field, description: 'holds what looks like an API key; leave it out, since this text is kept and shown' }));
}

/** Restrictions with ids in them, each once; undefined where there are none at all. */
export function cleanRestrictions(restrictions: KeyRestrictions | undefined): KeyRestrictions | undefined {
  if (!restrictions) return undefined;
  const deviceIds = [...new Set(restrictions.deviceIds)];
  const connectionIds = [...new Set(restrictions.connectionIds)];
  const commandIds = [...new Set(restrictions.commandIds)];
  return deviceIds.length + connectionIds.length + commandIds.length === 0 ? undefined : { deviceIds, connectionIds, commandIds };
}

/** A grant without violations in the one form in which it is kept. */
export function cleanGrant(grant: KeyGrant): KeyGrant {
  const { scopes, connectionIds, allConnections, restrictions, allowedAddresses, expiresAt } = grant;
  return { scopes: [...new Set(scopes)], connectionIds, allConnections, restrictions: cleanRestrictions(restrictions), allowedAddresses: readAddresses(allowedAddresses, 'allowedAddresses').addresses, expiresAt };
}

function connectionViolations(grant: KeyGrant): Violation[] {
  const forGateways = grant.scopes.includes(GATEWAYS);
  const named = grant.connectionIds.length > 0;
  const field = named ? 'connectionIds' : 'allConnections';
  if (named && grant.allConnections) return [{ field, description: 'excludes allConnections; give one of the two' }];
  if (forGateways && !named && !grant.allConnections) return [{ field: 'connectionIds', description: `must name the gateway connections of a key with ${GATEWAYS}; or set allConnections` }];
  if (!forGateways && (named || grant.allConnections)) return [{ field, description: `is for keys with the scope ${GATEWAYS}; add that scope or leave it out` }];
  return [];
}
