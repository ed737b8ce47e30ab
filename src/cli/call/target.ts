import { readFileSync } from 'node:fs';
import { type ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { parseHostPort } from '../../config';
import { UsageError } from '../exit';
import { getConfig, type ConfigFlags } from '../options';
import { getRunEndpoint, findRunFile, type Endpoint, type RunFile } from '../runFile';

/** Command-line options for the server address and the API key. */
export interface TargetFlags extends ConfigFlags {
  readonly address?: string;
  readonly ca?: string;
  readonly plaintext?: boolean;
  readonly key?: string;
  readonly keyFile?: string;
  readonly organization?: string;
}

/** How the server is verified: with a CA certificate (PEM), with the CAs of the system, or not at all (without TLS). */
type Security = { readonly ca?: Buffer } | { readonly insecure: true };

/** A server to call, and the API key. */
export interface Target {
  readonly address: string;
  readonly security: Security;
  /** The channel credentials for `security`. */
  readonly credentials: ChannelCredentials;
  /** Empty: no key. */
  readonly key: string;
  /** Empty: no organization. */
  readonly organizationId: string;
}

/**
 * Resolves the server and the key. Without --address it is the server of the data folder, from its run.json, with the
 * CA that this server created. With --address the certificate must be signed by --ca or a CA of the system. The key
 * comes from --key, --key-file, PLANTROOM_API_KEY or PLANTROOM_BOOTSTRAP_KEY_FILE. Throws UsageError.
 */
export function getTarget(flags: TargetFlags): Target {
  const run = flags.address === undefined ? findRunFile(getConfig(flags).config.data.dir) : undefined;
  const endpoint = getEndpoint(flags, run);
  if (!parseHostPort(endpoint.address))
    throw new UsageError(
      `--address ${JSON.stringify(endpoint.address)} must be host:port, for example localhost:50051`,
    );
  const { key, organizationId } = getKey(flags);
  const security = getSecurity(endpoint);
  return {
    address: endpoint.address,
    security,
    credentials: getCredentials(security),
    key,
    organizationId: organizationId || (run?.organizationId ?? ''),
  };
}

/** Returns how the server at the endpoint is verified. Throws UsageError if the CA cannot be read. */
export function getSecurity({ plaintext, ca }: Endpoint): Security {
  if (plaintext) return { insecure: true };
  return ca === undefined ? {} : { ca: readFile(ca, '--ca') };
}

/** Creates the channel credentials. */
export function getCredentials(security: Security): ChannelCredentials {
  return 'insecure' in security ? credentials.createInsecure() : credentials.createSsl(security.ca ?? null);
}

/** Creates the metadata of a call with the key and the organization, if known. */
export function getMetadata({ key, organizationId }: Pick<Target, 'key' | 'organizationId'>): Metadata {
  const metadata = new Metadata();
  if (key) metadata.set('x-api-key', key);
  if (organizationId) metadata.set('x-organization-id', organizationId);
  return metadata;
}

/** Returns the address of --address, or that of the running server. Throws UsageError if there is neither. */
function getEndpoint(flags: TargetFlags, run: RunFile | undefined): Endpoint {
  if (flags.address !== undefined) return { address: flags.address, plaintext: flags.plaintext === true, ca: flags.ca };
  if (!run)
    throw new UsageError(
      'no server is running with this data folder: start one with "plantroom serve", set its folder with --data-dir, or use --address host:port',
    );
  const own = getRunEndpoint(run);
  return { ...own, ca: flags.ca ?? own.ca };
}

/**
 * Returns the key and its organization, each empty if unknown. A key of --key, or of the environment without
 * --key-file, takes precedence over a key file.
 */
function getKey(flags: TargetFlags): { key: string; organizationId: string } {
  const organizationId = flags.organization ?? process.env['PLANTROOM_ORGANIZATION_ID'];
  const key = flags.key ?? (flags.keyFile === undefined ? process.env['PLANTROOM_API_KEY'] : undefined);
  const file = flags.keyFile ?? process.env['PLANTROOM_BOOTSTRAP_KEY_FILE'];
  if (key !== undefined || !file) return { key: key ?? '', organizationId: organizationId ?? '' };
  const stored = readKeyFile(file);
  return { key: stored.apiKey, organizationId: organizationId ?? stored.organizationId };
}

/** Reads a key file, which the server writes at its first start. Throws UsageError if it is not one. */
function readKeyFile(file: string): { organizationId: string; apiKey: string } {
  const content = readFile(file, '--key-file').toString();
  try {
    const stored = JSON.parse(content) as { organizationId?: unknown; apiKey?: unknown };
    if (typeof stored.apiKey === 'string' && typeof stored.organizationId === 'string')
      return { apiKey: stored.apiKey, organizationId: stored.organizationId };
  } catch {
    // Reported below: a file that is not JSON is not a key file either.
  }
  throw new UsageError(
    `${file} must contain {"organizationId": "...", "apiKey": "plr_..."}, as written by the first start`,
  );
}

function readFile(file: string, option: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(
      `${option} ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): use the path of a readable file`,
      { cause: error },
    );
  }
}
