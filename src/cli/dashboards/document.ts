/** An exported dashboard (DashboardDocument) as JSON of the server. */
export interface DocumentJson {
  readonly name: string;
  readonly description: string;
  readonly content: ContentJson;
  readonly devices: readonly { readonly ref: string; readonly name: string; readonly clientDeviceId: string }[];
}

/** The content of a document. Widgets and layout have the same order. */
interface ContentJson {
  readonly widgets: readonly WidgetJson[];
  readonly layout: readonly {
    readonly column: number;
    readonly row: number;
    readonly width: number;
    readonly height: number;
  }[];
}

/** A widget of a document. */
interface WidgetJson {
  readonly kind: string;
  readonly title: string;
  /** The options that name a device: by its ref, or by a variable. */
  readonly options?: { readonly deviceId?: string; readonly deviceVariable?: string };
  readonly series: readonly SeriesJson[];
}

/** A series of a document: `deviceId` is the ref of a device. */
interface SeriesJson {
  readonly deviceId: string;
  readonly deviceVariable: string;
  readonly missingDevice: string;
  readonly keyName: string;
}
