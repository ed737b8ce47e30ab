import { readFileSync } from 'node:fs';
import { findHostPort, hostPortText, reachableHost, type Config } from '../../config';
import { findDataFolderHolder } from '../../database';
import { messageOf } from '../../kernel/thrown';
import { endpointOfRun, findRunFile, programText, type RunFile } from '../runFile';
import { askHealth } from '../server/askHealth';
import { ask, asksForCertificate } from './ask';
import { fail, ok, warn, type Finding } from './check';
import { figures } from './figureChecks';
import { freePorts, openMetrics } from './portChecks';

const SEE_LOG = 'look at its log (journalctl -u plantroom -n 50, or docker compose logs)';

/** Whether a server has the data folder: then whether its ports answer and how it does, else whether its ports are free. */
export async function server(config: Config): Promise<Finding[]> {
  const holder = findDataFolderHolder(config.data.dir);
  if (holder === undefined) return [ok('server', 'none runs on the data folder'), ...(await freePorts(config)), ...openMetrics(config)];
  const found = ok('server', `one runs on the data folder (process ${holder})`);
  const run = findRunFile(config.data.dir);
  if (!run) return [found, warn('health', 'the server does not say where it listens (run.json is missing)', 'it is starting or stopping; look again in a few seconds')];
  return [found, ...sameProgram(run), await health(run), await rest(run), ...(await figures(run.metrics)), ...openMetrics(config)];
}

/** A program that was replaced runs on as it was until it is started again. */
function sameProgram({ program }: RunFile): Finding[] {
  if (program === undefined || program === programText()) return [];
  return [warn('program', `the server is ${program}, and this is ${programText()}`, 'restart the server when it suits (systemctl restart plantroom)')];
}

async function health(run: RunFile): Promise<Finding> {
  const { address, plaintext } = endpointOfRun(run);
  const { state, message } = await askHealth(address, plaintext);
  return state === 'serving' ? ok('health', message) : fail('health', message, SEE_LOG);
}

/** Over TLS, with the certificate checked as clients do where it is the server's own: of yours nobody knows here by which name it is called. */
async function rest({ http, tls, ca }: RunFile): Promise<Finding> {
  if (http === null) return ok('HTTP', 'switched off');
  const { host, port } = findHostPort(http) ?? { host: 'localhost', port: 0 };
  const address = hostPortText({ host: reachableHost(host), port });
  try {
    const trust = { ca: ca === null ? undefined : readFileSync(ca), isChecked: ca !== null };
    const { status, body } = await ask(`http${tls ? 's' : ''}://${address}/readyz`, trust);
    if (status !== 200) return fail('HTTP', `/readyz on ${address} says ${status}: ${body}`, SEE_LOG);
    return body.includes('degraded') ? warn('HTTP', `/readyz on ${address} says ${body}`, 'make room on the disk of the data folder, or mount it for writing') : ok('HTTP', `it is ready on ${address}`);
  } catch (error) {
    if (asksForCertificate(error)) return ok('HTTP', `it listens on ${address}, and asks for a client certificate: more cannot be seen`);
    return fail('HTTP', `it does not answer on ${address} (${messageOf(error)})`, SEE_LOG);
  }
}
