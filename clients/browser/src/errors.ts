/** Every error of this client: catch `GodwitError` to catch them all. */
export class GodwitError extends Error {
  override name = "GodwitError";
}

/** A value or an option of the application that makes no sense. Nothing was sent. */
export class InvalidValue extends GodwitError {
  override name = "InvalidValue";
}

/** A broker has refused a request, or ended a subscription. The message is the broker's reason. */
export class Refused extends GodwitError {
  override name = "Refused";
}

/** No broker has answered in time, or the client was closed before one had. */
export class NotConnected extends GodwitError {
  override name = "NotConnected";
}

/** Too many events wait for a broker: this one was not published. */
export class BufferFull extends GodwitError {
  override name = "BufferFull";
}

/** A broker has sent what no broker should. The client closes that connection and tries again. */
export class ProtocolError extends GodwitError {
  override name = "ProtocolError";
}
