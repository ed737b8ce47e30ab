import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { fail, ok, warn, type Finding } from './check';

const A_MONTH = 30 * 86_400_000;

/** Whether the certificates can be read, fit their keys, last, and are nobody else's to read. */
export function certificates({ tls, data }: Config): Finding[] {
  if (tls.mode === 'off') return [warn('TLS', 'is off: keys and values cross the network as plain text', 'set PLANTROOM_TLS_MODE=auto')];
  const client = tls.clientCaFile === '' ? [] : certificate('client CA', tls.clientCaFile, 'set PLANTROOM_TLS_CLIENT_CA_FILE to the CA that signs the certificates of your clients');
  const byHand = 'renew the certificate; the server takes the new files while it runs';
  if (tls.mode === 'files') return [...pair('certificate', tls.certFile, tls.keyFile, byHand), ...client];
  const folder = join(data.dir, 'tls');
  if (!existsSync(join(folder, 'ca.pem'))) return [ok('TLS', 'there are no certificates yet; the first start makes them'), ...client];
  const byItself = 'start the server: it renews its certificate by itself';
  return [...pair('CA', join(folder, 'ca.pem'), join(folder, 'ca-key.pem'), 'a CA lasts 10 years; remove its files for a new one that every client has to trust anew'), ...pair('certificate', join(folder, 'server.pem'), join(folder, 'server-key.pem'), byItself), ...client];
}

/** A certificate with its private key. */
function pair(check: string, certFile: string, keyFile: string, mend: string): Finding[] {
  const findings = certificate(check, certFile, mend);
  if (findings.some((finding) => finding.state === 'fail')) return findings;
  try {
    if (!new X509Certificate(readFileSync(certFile)).checkPrivateKey(createPrivateKey(readFileSync(keyFile)))) return [...findings, fail(`${check} key`, `${keyFile} is not the key of ${certFile}`, 'give the two files that belong together')];
  } catch (error) {
    return [...findings, fail(`${check} key`, `${keyFile} cannot be used (${(error as Error).message})`, 'give a readable private key, PEM, without a passphrase')];
  }
  return [...findings, rights(check, keyFile)];
}

function certificate(check: string, file: string, mend: string): Finding[] {
  let read: X509Certificate;
  try {
    read = new X509Certificate(readFileSync(file));
  } catch (error) {
    return [fail(check, `${file} cannot be used (${(error as Error).message})`, 'give a readable certificate, PEM')];
  }
  const until = read.validToDate.getTime();
  const found = `valid until ${read.validToDate.toISOString().slice(0, 10)}${read.subjectAltName ? `, for ${read.subjectAltName.replaceAll(/DNS:|IP Address:/g, '')}` : ''}`;
  if (until < Date.now()) return [fail(check, `it ended on ${read.validToDate.toISOString().slice(0, 10)}`, mend)];
  if (read.validFromDate.getTime() > Date.now()) return [fail(check, `it begins on ${read.validFromDate.toISOString().slice(0, 10)}`, 'check the clock of this machine, or wait')];
  return [until < Date.now() + A_MONTH ? warn(check, found, mend) : ok(check, found)];
}

function rights(check: string, keyFile: string): Finding {
  const mode = statSync(keyFile).mode & 0o777;
  const open = process.platform !== 'win32' && (mode & 0o007) !== 0;
  return open ? warn(`${check} key`, `every user of this machine may read it (mode ${mode.toString(8)})`, `chmod 600 ${keyFile}`) : ok(`${check} key`, keyFile);
}
