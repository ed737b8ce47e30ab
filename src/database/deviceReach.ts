import type { Knex } from 'knex';
import type { DeviceReach } from '../kernel/reach';

/**
 * Narrows a query to the devices inside the reach of a limited key; undefined narrows nothing. `column` holds the id of a digital device,
 * for example `d.id`. Stands here because rooms below and above the devices ask it. The query has to find few rows by itself: each is
 * looked at, because an engine that collects all that is bound to a large connection first would do so at every call.
 */
export function whereDeviceInside(query: Knex.QueryBuilder, column: string, organizationId: string, reach: DeviceReach | undefined): Knex.QueryBuilder {
  if (!reach) return query;
  return query.where((inside) => {
    inside.whereIn(column, [...reach.ids]);
    if (reach.connectionIds.size === 0) return;
    inside.orWhereExists((bound) => {
      void bound.select('reached.device_id').from('physical_devices as reached').whereRaw('reached.device_id = ??', [column]).where('reached.organization_id', organizationId).whereIn('reached.connection_id', [...reach.connectionIds]);
    });
  });
}
