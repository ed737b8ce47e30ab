import { readFileSync } from 'node:fs';
import type { ServerOptions } from 'plantroom-client';

/** Command-line flags for the server. Key and organization come from the environment, because other users can see the command line. */
export const serverFlags = {
  address: { type: 'string', default: 'localhost:50051' },
  ca: { type: 'string', default: 'data/tls/ca.pem' },
} as const;

/** Returns the server options from the flags and the environment. */
export function serverOf({ address, ca }: { readonly address: string; readonly ca: string }): ServerOptions {
  return {
    address,
    ca: readFileSync(ca),
    apiKey: environment('PLANTROOM_API_KEY'),
    organizationId: environment('PLANTROOM_ORGANIZATION_ID'),
  };
}

function environment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}: the server prints it on its first start`);
  return value;
}
