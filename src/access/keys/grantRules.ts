import type { Violation } from '../../kernel/errors';
import { containsApiKey } from '../../kernel/redactApiKeys';
import { isScope, SCOPES } from '../../kernel/scopes';
import { readAddresses } from './addresses';
import type { KeyGrant, KeyRestrictions } from './apiKey';

/** The scope with which a gateway attaches to its connection. */
const GATEWAY_SCOPE = 'gateways:write';

/** The texts that describe a key. */
export interface KeyAttributes {
  readonly name?: string | undefined;
  readonly note?: string | undefined;
}

/**
 * Returns the violations of a grant, without checking whether the referenced records exist. `now`: Unix milliseconds.
 */
export function findGrantViolations(grant: KeyGrant, now: number): Violation[] {
  const violations: Violation[] = [];
  grant.scopes.forEach((scope, index) => {
    if (!isScope(scope))
      violations.push({
        field: `scopes[${index}]`,
        description: `${containsApiKey(scope) ? 'an API key' : JSON.stringify(scope)} is not a scope: use one of ${SCOPES.join(', ')}`,
      });
  });
  violations.push(
    ...findConnectionViolations(grant),
    ...findRestrictionViolations(grant),
    ...findExpiryViolations(grant.expiresAt, now),
  );
  return [...violations, ...readAddresses(grant.allowedAddresses, 'allowedAddresses').violations];
}

/** Returns the violation of an expiry time. `now`: Unix milliseconds. */
export function findExpiryViolations(expiresAt: number | undefined, now: number): Violation[] {
  if (expiresAt === undefined || expiresAt > now) return [];
  return [{ field: 'expiresAt', description: 'must be in the future; omit it for a key that does not expire' }];
}

/** Returns the violation of restrictions that are not possible with the scopes of the key. */
export function findRestrictionViolations({
  scopes,
  restrictions,
}: Pick<KeyGrant, 'scopes' | 'restrictions'>): Violation[] {
  if (!cleanRestrictions(restrictions) || !scopes.includes(GATEWAY_SCOPE)) return [];
  return [
    {
      field: 'restrictions',
      description: `is not allowed for keys with ${GATEWAY_SCOPE}, because a gateway serves all devices of its connection: remove the restrictions or the scope`,
    },
  ];
}

/** Returns a violation for each name or note that contains an API key, because these texts are stored and shown. */
export function findTextViolations(texts: KeyAttributes): Violation[] {
  const invalid = (['name', 'note'] as const).filter((field) => containsApiKey(texts[field] ?? ''));
  return invalid.map((field) => ({
    field,
    description: 'contains something that looks like an API key: remove it, because this text is stored and shown',
  }));
}

/** Returns the restrictions without duplicate ids; undefined if they contain no ids, which means no restrictions. */
export function cleanRestrictions(restrictions: KeyRestrictions | undefined): KeyRestrictions | undefined {
  if (!restrictions) return undefined;
  const deviceIds = [...new Set(restrictions.deviceIds)];
  const connectionIds = [...new Set(restrictions.connectionIds)];
  const commandIds = [...new Set(restrictions.commandIds)];
  return deviceIds.length + connectionIds.length + commandIds.length === 0
    ? undefined
    : { deviceIds, connectionIds, commandIds };
}

/** Returns a valid grant as it is stored: lists without duplicates, and addresses in canonical form. */
export function cleanGrant(grant: KeyGrant): KeyGrant {
  const { scopes, connectionIds, allConnections, restrictions, allowedAddresses, expiresAt } = grant;
  return {
    scopes: [...new Set(scopes)],
    connectionIds: [...new Set(connectionIds)],
    allConnections,
    restrictions: cleanRestrictions(restrictions),
    allowedAddresses: readAddresses(allowedAddresses, 'allowedAddresses').addresses,
    expiresAt,
  };
}

/**
 * Returns the violations of the gateway connections: a key with the gateway scope needs either a list or
 * `allConnections`, and other keys have neither.
 */
function findConnectionViolations(grant: KeyGrant): Violation[] {
  const isForGateways = grant.scopes.includes(GATEWAY_SCOPE);
  const hasConnectionIds = grant.connectionIds.length > 0;
  const field = hasConnectionIds ? 'connectionIds' : 'allConnections';
  if (hasConnectionIds && grant.allConnections)
    return [{ field, description: 'cannot be combined with allConnections: set only one of them' }];
  if (isForGateways && !hasConnectionIds && !grant.allConnections)
    return [
      {
        field: 'connectionIds',
        description: `is required for a key with ${GATEWAY_SCOPE}: list the gateway connections, or set allConnections`,
      },
    ];
  if (!isForGateways && (hasConnectionIds || grant.allConnections))
    return [{ field, description: `requires the scope ${GATEWAY_SCOPE}: add that scope, or remove this field` }];
  return [];
}
