import type { Knex } from 'knex';
import type { DeviceReach } from '../kernel/reach';

/**
 * Narrows a query to the devices inside the reach of a limited key; undefined narrows nothing. `column` holds the id of a digital device,
 * for example `d.id`. Stands here because rooms below and above the devices ask it.
 */
export function whereDeviceInside(query: Knex.QueryBuilder, column: string, organizationId: string, reach: DeviceReach | undefined): Knex.QueryBuilder {
  if (!reach) return query;
  return query.where((inside) => {
    inside.whereIn(column, [...reach.ids]);
    if (reach.connectionIds.size === 0) return;
    inside.orWhereIn(column, (bound) => void bound.select('device_id').from('physical_devices').where('organization_id', organizationId).whereIn('connection_id', [...reach.connectionIds]));
  });
}
