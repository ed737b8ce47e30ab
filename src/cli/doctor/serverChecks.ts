import { readFileSync } from 'node:fs';
import { parseHostPort, formatHostPort, getLocalHost, type Config } from '../../config';
import { findDataFolderHolder } from '../../database';
import { formatMessage } from '../../kernel/errorUtils';
import { getRunEndpoint, findRunFile, formatProgram, type RunFile } from '../runFile';
import { queryHealth } from '../server/askHealth';
import { isClientCertificateRequired } from '../clientCertificate';
import { fetchPage } from './fetchPage';
import { fail, ok, warn, type Finding } from './check';
import { checkMetrics } from './metricChecks';
import { checkPorts, checkMetricsAccess } from './portChecks';

const START_SERVER = 'start the server (systemctl start plantroom, docker compose up -d, or plantroom serve)';
const CHECK_LOG = 'check the log of the server (journalctl -u plantroom -n 50, or docker compose logs)';

/** Checks a running server: its health, ports and metrics. If no server is running, checks that its ports are free. */
export async function checkServer(config: Config): Promise<Finding[]> {
  const holder = findDataFolderHolder(config.data.dir);
  if (holder === undefined)
    return [
      warn('server', 'stopped: no server uses the data folder', START_SERVER),
      ...(await checkPorts(config)),
      ...checkMetricsAccess(config),
    ];
  const found = ok('server', `running (process ${holder})`);
  const run = findRunFile(config.data.dir);
  if (!run)
    return [
      found,
      warn(
        'health',
        'the addresses of the server are unknown (run.json is missing): it is starting or stopping',
        'run this command again in a few seconds',
      ),
    ];
  return [
    found,
    ...checkProgram(run),
    await checkHealth(run),
    await checkHttp(run),
    ...(await checkMetrics(run.metrics)),
    ...checkMetricsAccess(config),
  ];
}

/** Warns if the server still runs an older version: after an upgrade it must be restarted. */
function checkProgram({ program }: RunFile): Finding[] {
  if (program === undefined || program === formatProgram()) return [];
  return [
    warn(
      'program',
      `the server runs version ${program}, but this program is ${formatProgram()}`,
      'restart the server at a suitable time (systemctl restart plantroom)',
    ),
  ];
}

async function checkHealth(run: RunFile): Promise<Finding> {
  const { address, plaintext } = getRunEndpoint(run);
  const { state, message } = await queryHealth(address, plaintext);
  return state === 'serving' ? ok('health', message) : fail('health', message, CHECK_LOG);
}

/**
 * Checks HTTP by GET /readyz. A certificate of the private CA is verified. Your own certificate is not, because the
 * host name that clients use is unknown here.
 */
async function checkHttp({ http, tls, ca }: RunFile): Promise<Finding> {
  if (http === null) return ok('HTTP', 'disabled');
  const { host, port } = parseHostPort(http) ?? { host: 'localhost', port: 0 };
  const address = formatHostPort({ host: getLocalHost(host), port });
  try {
    const trust = { ca: ca === null ? undefined : readFileSync(ca), isChecked: ca !== null };
    const { status, body } = await fetchPage(`http${tls ? 's' : ''}://${address}/readyz`, trust);
    if (status !== 200) return fail('HTTP', `/readyz on ${address} returned status ${status}: ${body}`, CHECK_LOG);
    // Ready, but the disk is full or read-only.
    return body.includes('degraded')
      ? warn(
          'HTTP',
          `/readyz on ${address} returned: ${body}`,
          'free space on the disk of the data folder, or mount it read-write',
        )
      : ok('HTTP', `ready on ${address}`);
  } catch (error) {
    if (isClientCertificateRequired(error))
      return ok('HTTP', `listening on ${address}; not checked further, because it requires a client certificate`);
    return fail('HTTP', `no response on ${address} (${formatMessage(error)})`, CHECK_LOG);
  }
}
