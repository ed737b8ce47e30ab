import { readFileSync } from 'node:fs';
import type { ServerOptions } from 'plantroom-client';

/** The flags of the command line that say where the server is. Key and organization come from the environment: a command line is seen by others. */
export const serverFlags = {
  address: { type: 'string', default: 'localhost:50051' },
  ca: { type: 'string', default: 'data/tls/ca.pem' },
} as const;

/** The server that the flags and the environment name. */
export function serverOf({ address, ca }: { readonly address: string; readonly ca: string }): ServerOptions {
  return { address, ca: readFileSync(ca), apiKey: environment('PLANTROOM_API_KEY'), organizationId: environment('PLANTROOM_ORGANIZATION_ID') };
}

function environment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}: the first start of the server shows it`);
  return value;
}
