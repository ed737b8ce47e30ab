/** Every scope that a key or role can have. `x:write` does not imply `x:read`; see IMPLIED_SCOPES. */
export const SCOPES = [
  'users:read',
  'devices:read',
  'devices:write',
  'sensors:read',
  'sensors:write',
  'commands:read',
  'commands:write',
  'commands:execute',
  'telemetry:read',
  'connections:read',
  'connections:write',
  'gateways:write',
  'organizations:read',
  'organizations:write',
  'api-keys:read',
  'api-keys:write',
  'audit:read',
  'media:read',
  'media:write',
  'dashboards:read',
  'dashboards:write',
] as const;

/** One of SCOPES. */
export type Scope = (typeof SCOPES)[number];

/** Checks whether a text is a scope of this server. */
export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

/** The scopes that a scope implies. There is only one implication: a key that may define commands may execute them. */
export const IMPLIED_SCOPES: Readonly<Partial<Record<string, readonly Scope[]>>> = {
  'commands:write': ['commands:execute'],
};

/** Returns the scopes together with those that they imply. */
export function expandScopes(scopes: Iterable<string>): Set<string> {
  const listed = [...scopes];
  return new Set([...listed, ...listed.flatMap((scope) => IMPLIED_SCOPES[scope] ?? [])]);
}
