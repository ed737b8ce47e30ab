import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import type { Bootstrapped } from '../../access';
import type { App } from '../../app';
import { findHostPort, hostPortText, reachableHost } from '../../config';
import { DomainError } from '../../kernel/errors';
import { userIdText } from '../../kernel/userIdText';
import { programName } from '../../kernel/thisProgram';
import { note } from '../output';

/** Where the key of the first start goes. */
export interface FirstKeyFile {
  /** Writes it, for this user only. Throws `key_file_not_writable`, also instead of replacing a file that holds something; leaves no half file. */
  keep(made: Bootstrapped): void;
  /** There was none to keep. */
  discard(): void;
}

/** Opens the key file before the key is made, so that a key is never made and then lost. Throws `key_file_not_writable`. */
export function openFirstKeyFile(file: string): FirstKeyFile {
  const draft = `${file}.${process.pid}.new`;
  let descriptor: number;
  try {
    descriptor = openSync(draft, 'wx', 0o600);
  } catch (error) {
    throw notWritable(file, error, '');
  }
  const discard = (): void => {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  };
  return {
    keep: ({ organization, key }) => {
      try {
        writeSync(descriptor, `${JSON.stringify({ organizationId: organization.id, apiKey: key })}\n`);
        fsyncSync(descriptor);
        if (statSync(file, { throwIfNoEntry: false })?.isFile() === true && statSync(file).size > 0) throw Object.assign(new Error('there is a file with something in it'), { code: 'EEXIST' });
        renameSync(draft, file);
      } catch (error) {
        discard();
        throw notWritable(file, error, '; the key is shown on the terminal instead');
      }
      closeSync(descriptor);
    },
    discard,
  };
}

function notWritable(file: string, error: unknown, more: string): DomainError {
  const wanted = `let the user of this program${userIdText()} write its folder, or set PLANTROOM_BOOTSTRAP_KEY_FILE to a file in another one`;
  return new DomainError('conflict', 'key_file_not_writable', `the key file ${file} cannot be written (${(error as NodeJS.ErrnoException).code})${more}; ${wanted}`, { cause: error });
}

/** Shows the key of the first start on the terminal, this once, with a call to copy. `ca`: undefined without a private CA. */
export function showFirstKey({ organization, user, key }: Bootstrapped, { grpc, http }: App['addresses'], tls: boolean, ca: string | undefined): void {
  const trust = tls ? (ca === undefined ? '' : ` -cacert ${ca}`) : ' -plaintext';
  note(`
Plantroom is new here. It made an organization, a user and one API key, which is shown this once. Keep it.

  organization  ${organization.id}  (${organization.name})
  user          ${user.id}  (${user.name})
  API key       ${key}

Try it from another terminal:

  export PLANTROOM_API_KEY=${key}
  export PLANTROOM_ORGANIZATION_ID=${organization.id}
  ${programName} call AccessControlService/WhoAmI

or with grpcurl:

  grpcurl${trust} -H 'x-api-key: ${key}' -H 'x-organization-id: ${organization.id}' ${reachable(grpc)} organization_access_control.AccessControlService/WhoAmI
${http === undefined ? '' : curlCall(reachable(http), tls, ca, key, organization.id)}`);
}

function curlCall(address: string, tls: boolean, ca: string | undefined, key: string, organizationId: string): string {
  return `
or with curl:

  curl${ca === undefined ? '' : ` --cacert ${ca}`} -H 'X-API-Key: ${key}' -H 'X-Organization-Id: ${organizationId}' http${tls ? 's' : ''}://${address}/api/v2/who-am-i

All that it can do: http${tls ? 's' : ''}://${address}/docs/
`;
}

function reachable(listens: string): string {
  const { host, port } = findHostPort(listens) ?? { host: 'localhost', port: 0 };
  return hostPortText({ host: reachableHost(host), port });
}
