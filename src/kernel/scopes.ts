/** Every scope that a key can hold (contract.md, section 2). `x:write` does not imply `x:read`. */
export const SCOPES = [
  'users:read',
  'devices:read',
  'devices:write',
  'sensors:read',
  'sensors:write',
  'commands:read',
  'commands:write',
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
] as const;

/** One of SCOPES. */
export type Scope = (typeof SCOPES)[number];

/** Whether a text is a scope of this server. */
export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
