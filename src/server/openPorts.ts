import { hostname } from 'node:os';
import { formatHostPort, isLoopback, parseHostPort } from '../config';
import { createLinkedMedia } from '../media';
import { GrpcServer } from '../api/grpc/grpcServer';
import { RestServer } from '../api/rest/restServer';
import type { Modules } from './createModules';
import type { Foundation } from './foundation';

/** Opens the gRPC port and, unless it is disabled, the HTTP port. Returns their addresses, `host:port`. */
export async function openPorts(
  { config, disposables }: Foundation,
  { api, tls, media, telemetry, publicUrl }: Modules,
): Promise<{ readonly grpc: string; readonly http: string | undefined }> {
  const { limits } = config;
  const grpcServer = new GrpcServer({ services: api, tls, limits });
  const restServer =
    config.http.listen === 'off'
      ? undefined
      : new RestServer({
          services: api,
          tls,
          links: [createLinkedMedia(media.service, media.links)],
          ...config.http,
          limits,
        });
  const transports = restServer ? [grpcServer, restServer] : [grpcServer];
  disposables.add(async () => await api.stop(limits.shutdownTimeoutMs, transports));
  disposables.add(() => telemetry.decoder.stop()); // before the actions that wait for received uplinks to be stored
  const grpc = await grpcServer.start(config.grpc.listen);
  const http = await restServer?.start(config.http.listen);
  const isPublicUrlConfigured = publicUrl.value !== '';
  if (http && !isPublicUrlConfigured) publicUrl.value = getDefaultPublicUrl(http.address, tls.isOn);
  return { grpc: grpc.address, http: http?.address };
}

/** Returns the base URL at which browsers reach this server. `address`: what the server listens on, `host:port`. */
function getDefaultPublicUrl(address: string, isTlsOn: boolean): string {
  const { host, port } = parseHostPort(address) ?? { host: 'localhost', port: 0 };
  return `http${isTlsOn ? 's' : ''}://${formatHostPort({ host: getPublicHost(host), port })}`;
}

/** Returns the name at which browsers reach a server that listens on `host`. */
function getPublicHost(host: string): string {
  const isAnyAddress = host === '0.0.0.0' || host === '::';
  if (isAnyAddress) return hostname();
  return isLoopback(host) ? 'localhost' : host;
}
