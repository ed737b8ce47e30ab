import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { Bootstrapped } from '../../access';
import type { RunningServer } from '../../server';
import { parseHostPort, formatHostPort, getLocalHost } from '../../config';
import { DomainError } from '../../kernel/errors';
import { programName } from '../../kernel/executable';
import { getCode } from '../../kernel/errorUtils';
import { formatUserId } from '../../kernel/formatUserId';
import { note } from '../output';

/**
 * Returns a function that writes the first API key to `file`, readable only by this user. It must run before the key is
 * stored, so that no key is stored that nobody has received. The function throws `key_file_exists` if the file is not
 * empty, and `key_file_not_writable`.
 */
export function createFirstKeyWriter(file: string): (bootstrapped: Bootstrapped) => void {
  let isWritten = false; // A retried transaction calls the function again with another key.
  return ({ organization, key }) => {
    if (!isWritten && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0 && statSync(file).isFile())
      throw keyFileExists(file);
    const draft = `${file}.${process.pid}.new`;
    try {
      writeFileSync(draft, `${JSON.stringify({ organizationId: organization.id, apiKey: key })}\n`, {
        flag: 'wx',
        mode: 0o600,
        flush: true,
      });
      renameSync(draft, file);
    } catch (error) {
      rmSync(draft, { force: true });
      throw keyFileNotWritable(file, error);
    }
    isWritten = true;
  };
}

/** Creates the error for a key file that exists already. */
function keyFileExists(file: string): DomainError {
  return new DomainError(
    'conflict',
    'key_file_exists',
    `the key file ${file} already exists and is not overwritten, so no first key was created: move or delete it, or set PLANTROOM_BOOTSTRAP_KEY_FILE to another file`,
  );
}

/** Creates the error for a key file that cannot be written. */
function keyFileNotWritable(file: string, error: unknown): DomainError {
  const advice = `let the user of this program${formatUserId()} write to its folder, or set PLANTROOM_BOOTSTRAP_KEY_FILE to a file in another folder`;
  return new DomainError(
    'conflict',
    'key_file_not_writable',
    `the key file ${file} cannot be written (${getCode(error)}), so no first key was created: ${advice}`,
    { cause: error },
  );
}

/**
 * Prints the first API key and example calls on the terminal. The key is shown only once. `ca`: the file of the private
 * CA; undefined if there is none.
 */
export function showFirstKey(
  { organization, user, key }: Bootstrapped,
  { grpc, http }: RunningServer['addresses'],
  tls: boolean,
  ca: string | undefined,
): void {
  const trust = formatGrpcurlTrust(tls, ca);
  note(`
Welcome to Plantroom. An organization, an owner and an API key were created. The key is shown only once: save it now.

  organization  ${organization.id}  (${organization.name})
  user          ${user.id}  (${user.name})
  API key       ${key}

Try it in another terminal:

  export PLANTROOM_API_KEY=${key}
  export PLANTROOM_ORGANIZATION_ID=${organization.id}
  ${programName} call AccessControlService/WhoAmI

or with grpcurl:

  grpcurl${trust} -H 'x-api-key: ${key}' -H 'x-organization-id: ${organization.id}' ${formatClientAddress(grpc)} organization_access_control.AccessControlService/WhoAmI
${http === undefined ? '' : formatCurlExample(formatClientAddress(http), tls, ca, key, organization.id)}`);
}

/** Formats the options with which grpcurl verifies the server: none for a certificate of a public CA. */
function formatGrpcurlTrust(tls: boolean, ca: string | undefined): string {
  if (!tls) return ' -plaintext';
  return ca === undefined ? '' : ` -cacert ${ca}`;
}

/** Formats an example call with curl, and the address of the documentation. */
function formatCurlExample(
  address: string,
  tls: boolean,
  ca: string | undefined,
  key: string,
  organizationId: string,
): string {
  return `
or with curl:

  curl${ca === undefined ? '' : ` --cacert ${ca}`} -H 'X-API-Key: ${key}' -H 'X-Organization-Id: ${organizationId}' http${tls ? 's' : ''}://${address}/api/v2/who-am-i

API documentation: http${tls ? 's' : ''}://${address}/docs/
`;
}

/** Formats the address at which a client on this machine reaches a listening address. */
function formatClientAddress(listenAddress: string): string {
  const { host, port } = parseHostPort(listenAddress) ?? { host: 'localhost', port: 0 };
  return formatHostPort({ host: getLocalHost(host), port });
}
