import { readFileSync } from 'node:fs';
import { type ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { findHostPort } from '../../config';
import { UsageError } from '../exit';
import { configOf, type ConfigFlags } from '../options';
import { endpointOfRun, findRunFile, type Endpoint, type RunFile } from '../runFile';

/** Where to call and as whom, as the command line says it. */
export interface TargetFlags extends ConfigFlags {
  readonly address?: string;
  readonly ca?: string;
  readonly plaintext?: boolean;
  readonly key?: string;
  readonly keyFile?: string;
  readonly organization?: string;
}

/** How it is made sure that the server is the right one: by a CA certificate, PEM; by the CAs that the system trusts; or not at all, without TLS. */
export type Security = { readonly ca?: Buffer } | { readonly insecure: true };

/** A server that can be called, and the key to call it with. */
export interface Target {
  readonly address: string;
  readonly security: Security;
  /** Of `security`. */
  readonly credentials: ChannelCredentials;
  /** Empty: none was given. */
  readonly key: string;
  /** Empty: none was given. */
  readonly organizationId: string;
}

/**
 * Finds out where to call. Without --address it is the server on the data folder, by its run.json, with the CA that it made.
 * With --address the certificate must be of --ca or of a CA that the system trusts. The key: --key, --key-file,
 * PLANTROOM_API_KEY, PLANTROOM_BOOTSTRAP_KEY_FILE. Throws UsageError.
 */
export function targetOf(flags: TargetFlags, env: NodeJS.ProcessEnv = process.env): Target {
  const run = flags.address === undefined ? findRunFile(configOf(flags, env).config.data.dir) : undefined;
  const endpoint = endpointOf(flags, run);
  if (!findHostPort(endpoint.address)) throw new UsageError(`--address ${JSON.stringify(endpoint.address)} must be host:port, for example localhost:50051`);
  const { key, organizationId } = keyOf(flags, env);
  const security = securityOf(endpoint);
  return { address: endpoint.address, security, credentials: credentialsOf(security), key, organizationId: organizationId || (run?.organizationId ?? '') };
}

/** How to be sure of the server at the endpoint. Throws UsageError if the CA cannot be read. */
export function securityOf({ plaintext, ca }: Endpoint): Security {
  if (plaintext) return { insecure: true };
  return ca === undefined ? {} : { ca: readFile(ca, '--ca') };
}

/** What a channel to the server is made with. */
export function credentialsOf(security: Security): ChannelCredentials {
  return 'insecure' in security ? credentials.createInsecure() : credentials.createSsl(security.ca ?? null);
}

/** The metadata of a call: key and organization as far as they are known. */
export function metadataOf({ key, organizationId }: Pick<Target, 'key' | 'organizationId'>): Metadata {
  const metadata = new Metadata();
  if (key) metadata.set('x-api-key', key);
  if (organizationId) metadata.set('x-organization-id', organizationId);
  return metadata;
}

function endpointOf(flags: TargetFlags, run: RunFile | undefined): Endpoint {
  if (flags.address !== undefined) return { address: flags.address, plaintext: flags.plaintext === true, ca: flags.ca };
  if (!run) throw new UsageError('no server runs on the data folder; start one with "plantroom serve", name its folder with --data-dir, or give --address host:port');
  const own = endpointOfRun(run);
  return { ...own, ca: flags.ca ?? own.ca };
}

function keyOf(flags: TargetFlags, env: NodeJS.ProcessEnv): { key: string; organizationId: string } {
  const organizationId = flags.organization ?? env['PLANTROOM_ORGANIZATION_ID'];
  const key = flags.key ?? (flags.keyFile === undefined ? env['PLANTROOM_API_KEY'] : undefined);
  const file = flags.keyFile ?? env['PLANTROOM_BOOTSTRAP_KEY_FILE'];
  if (key !== undefined || !file) return { key: key ?? '', organizationId: organizationId ?? '' };
  const kept = parseKeyFile(file);
  return { key: kept.apiKey, organizationId: organizationId ?? kept.organizationId };
}

function parseKeyFile(file: string): { organizationId: string; apiKey: string } {
  const content = readFile(file, '--key-file').toString();
  try {
    const kept = JSON.parse(content) as { organizationId?: unknown; apiKey?: unknown };
    if (typeof kept.apiKey === 'string' && typeof kept.organizationId === 'string') return { apiKey: kept.apiKey, organizationId: kept.organizationId };
  } catch {
    // Said below: what is no JSON is no key file either.
  }
  throw new UsageError(`${file} must hold {"organizationId": "...", "apiKey": "plr_..."} as the first start writes it`);
}

function readFile(file: string, option: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(`${option} ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}); give the path of a readable file`, { cause: error });
  }
}
